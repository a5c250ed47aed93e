//! What can be set on a demo agent: a mode, a model, and whether it is brief.

use std::fmt;

use agentline_core::acp::Json;
use agentline_core::acp::session::{
    ConfigKind, ConfigOption, ConfigValue, SessionMode, SessionModes, SessionState,
};
use serde_json::json;

/// What is chosen, for all of its sessions.
#[derive(Debug)]
pub(super) struct Chosen {
    model: String,
    brief: bool,
}

impl Default for Chosen {
    fn default() -> Self {
        Self { model: MODELS[0].to_owned(), brief: false }
    }
}

impl Chosen {
    /// Whether there is such a value of such an option.
    pub(super) fn set(&mut self, option: &str, value: ConfigValue) -> bool {
        match (option, value) {
            ("model", ConfigValue::Id(model)) if MODELS.contains(&&*model) => self.model = model,
            ("brief", ConfigValue::Bool(brief)) => self.brief = brief,
            _ => return false,
        }
        true
    }

    pub(super) fn state(&self) -> SessionState {
        let mode = |id: &&str| SessionMode { id: (*id).into(), name: (*id).into(), description: None };
        SessionState {
            modes: Some(SessionModes {
                current_mode_id: MODES[0].into(),
                available_modes: MODES.iter().map(mode).collect(),
            }),
            config_options: Some(self.options()),
            models: None,
            meta: None,
        }
    }

    pub(super) fn options(&self) -> Vec<ConfigOption> {
        let model = ConfigOption {
            id: "model".into(),
            name: "Model".into(),
            description: None,
            category: Some("model".into()),
            kind: ConfigKind::Select,
            current_value: ConfigValue::Id(self.model.clone()),
            options: Some(Json::new(&MODELS.map(|model| json!({ "value": model, "name": model })))),
        };
        let brief = ConfigOption {
            id: "brief".into(),
            name: "Brief".into(),
            category: None,
            kind: ConfigKind::Boolean,
            current_value: ConfigValue::Bool(self.brief),
            options: None,
            ..model.clone()
        };
        vec![model, brief]
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model: {}\nbrief: {}", self.model, if self.brief { "on" } else { "off" })
    }
}

pub(super) const MODES: [&str; 2] = ["ask", "code"];
const MODELS: [&str; 2] = ["small", "large"];
