//! A model, a mode or an option as people name it, and how this agent is told of it (ACP,
//! session-config-options, session-modes).
//!
//! Agents have three places for the same wish: config options, the modes that were there before them, and the
//! models that were there before those. What is wanted goes to the first place that the agent has, and the type
//! of a value is that of the option, never that of the word.

use serde::{Deserialize, Serialize};

use super::{ConfigKind, ConfigOption, ConfigValue, SessionModels, SessionModes, SessionState};

/// Something to set on a session, as people name it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// A mode, by id or name.
    Mode(String),
    /// A model, by id or name.
    Model(String),
    /// An option, by id or category, and one of its values, by id or name.
    Option(String, String),
}

/// How the agent is told of a setting.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// By `session/set_mode`, with the id of a mode.
    Mode(String),
    /// By `session/set_model`, with the id of a model.
    Model(String),
    /// By `session/set_config_option`, with the id of an option.
    Option(String, ConfigValue),
}

/// Why a setting cannot be made, whatever the agent would say.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Unsettable {
    /// The agent has no place for it.
    #[error("the agent offers no {what}")]
    NotOffered {
        /// What is wanted: `choice of modes`, `choice of models`, or `option NAME`.
        what: String,
        /// The ids of the options that it has.
        options: Vec<String>,
    },
    /// It is on or off, and the word is neither.
    #[error("{option} is on or off, not {value}")]
    NotABool {
        /// The id of the option that was meant.
        option: String,
        /// The word that was given for it.
        value: String,
    },
}

impl Unsettable {
    /// Why, with what there is to choose from.
    #[must_use]
    pub fn explain(&self) -> String {
        match self {
            Self::NotOffered { options, .. } => with_choices(&self.to_string(), options),
            Self::NotABool { .. } => self.to_string(),
        }
    }
}

fn with_choices(why: &str, choices: &[String]) -> String {
    if choices.is_empty() { why.to_owned() } else { format!("{why}: {}", one_of(choices)) }
}

/// A choice in words: `one of small, big`. Some agents have hundreds of models, so the first twenty are listed and the
/// rest is counted.
#[must_use]
pub fn one_of(values: &[String]) -> String {
    let (shown, more) = values.split_at(values.len().min(20));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("one of {}{more}", shown.join(", "))
}

/// Where a setting goes.
enum Place<'a> {
    Option(&'a ConfigOption),
    Modes(&'a SessionModes),
    Models(&'a SessionModels),
}

impl Setting {
    fn value(&self) -> &str {
        match self {
            Self::Mode(value) | Self::Model(value) | Self::Option(_, value) => value,
        }
    }
}

impl SessionState {
    /// How the agent is told of a setting. A value that it does not list is passed on: the agent may take more
    /// than it lists, and judges.
    ///
    /// # Errors
    ///
    /// The agent has no place for it, or the word cannot be a value of the option's type.
    pub fn request(&self, setting: &Setting) -> Result<Request, Unsettable> {
        let wanted = setting.value();
        Ok(match self.place(setting)? {
            Place::Option(option) => Request::Option(option.id.clone(), option.value(wanted)?),
            Place::Modes(modes) => Request::Mode(meant(wanted, modes.choices())),
            Place::Models(models) => Request::Model(meant(wanted, models.choices())),
        })
    }

    /// The values that the agent lists for a setting.
    #[must_use]
    pub fn values(&self, setting: &Setting) -> Vec<String> {
        let choices = match self.place(setting) {
            Ok(Place::Option(option)) => option.choices(),
            Ok(Place::Modes(modes)) => modes.choices(),
            Ok(Place::Models(models)) => models.choices(),
            Err(_) => Vec::new(),
        };
        choices.into_iter().map(|(id, _)| id).collect()
    }

    /// Why a setting was not made, with what there is to choose from: the agent's words, and the values that it lists.
    #[must_use]
    pub fn explain(&self, setting: &Setting, why: &str) -> String {
        with_choices(why, &self.values(setting))
    }

    /// The models, id and name each, and the id of the one that it uses.
    pub(crate) fn models(&self) -> (Vec<Choice>, Option<String>) {
        match self.place(&Setting::Model(String::new())) {
            Ok(Place::Option(option)) => {
                let current = match &option.current_value {
                    ConfigValue::Id(id) => Some(id.clone()),
                    ConfigValue::Bool(_) => None,
                };
                (option.choices(), current)
            }
            Ok(Place::Models(models)) => (models.choices(), Some(models.current_model_id.clone())),
            Ok(Place::Modes(_)) | Err(_) => (Vec::new(), None),
        }
    }

    fn place(&self, setting: &Setting) -> Result<Place<'_>, Unsettable> {
        let (name, what) = match setting {
            Setting::Mode(_) => (MODE, "choice of modes".to_owned()),
            Setting::Model(_) => (MODEL, "choice of models".to_owned()),
            Setting::Option(name, _) => (&**name, format!("option {name}")),
        };
        if let Some(option) = self.option(name, matches!(setting, Setting::Option(..))) {
            return Ok(Place::Option(option));
        }
        match (name, &self.modes, &self.models) {
            (MODE, Some(modes), _) => Ok(Place::Modes(modes)),
            (MODEL, _, Some(models)) => Ok(Place::Models(models)),
            _ => {
                let options = self.config_options.iter().flatten().map(|option| option.id.clone());
                Err(Unsettable::NotOffered { what, options: options.collect() })
            }
        }
    }

    /// The option of that id or category: by id first where the word is meant as an id.
    fn option(&self, name: &str, by_id: bool) -> Option<&ConfigOption> {
        let find = |is: &dyn Fn(&ConfigOption) -> bool| {
            self.config_options.iter().flatten().find(|option| is(option))
        };
        let of_id = || find(&|option| option.id == name);
        let of_category = || find(&|option| option.category.as_deref() == Some(name));
        if by_id { of_id().or_else(of_category) } else { of_category().or_else(of_id) }
    }
}

impl ConfigOption {
    /// What a word means for this option.
    fn value(&self, wanted: &str) -> Result<ConfigValue, Unsettable> {
        match self.kind {
            ConfigKind::Select => Ok(ConfigValue::Id(meant(wanted, self.choices()))),
            ConfigKind::Boolean => match &*wanted.to_ascii_lowercase() {
                "true" | "on" | "yes" | "1" => Ok(ConfigValue::Bool(true)),
                "false" | "off" | "no" | "0" => Ok(ConfigValue::Bool(false)),
                _ => Err(Unsettable::NotABool { option: self.id.clone(), value: wanted.to_owned() }),
            },
        }
    }

    /// Its values, each with its name: flat or in groups. Empty when they cannot be read.
    fn choices(&self) -> Vec<Choice> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Entry {
            Group {
                options: Vec<Value>,
            },
            Value(Value),
            /// Of a later version.
            Unknown(serde::de::IgnoredAny),
        }
        #[derive(Deserialize)]
        struct Value {
            value: String,
            #[serde(default)]
            name: String,
        }
        if self.kind == ConfigKind::Boolean {
            return [true, false].map(|value| (value.to_string(), String::new())).into();
        }
        let entries: Option<Vec<Entry>> =
            self.options.as_ref().and_then(|options| serde_json::from_str(options.get()).ok());
        let values = entries.unwrap_or_default().into_iter().flat_map(|entry| match entry {
            Entry::Group { options } => options,
            Entry::Value(value) => vec![value],
            Entry::Unknown(_) => Vec::new(),
        });
        values.map(|Value { value, name }| (value, name)).collect()
    }
}

impl SessionModes {
    fn choices(&self) -> Vec<Choice> {
        self.available_modes.iter().map(|mode| (mode.id.clone(), mode.name.clone())).collect()
    }
}

impl SessionModels {
    fn choices(&self) -> Vec<Choice> {
        self.available_models.iter().map(|model| (model.model_id.clone(), model.name.clone())).collect()
    }
}

/// The id of a value, and its name.
pub(crate) type Choice = (String, String);

/// The id that a word means: itself, or the only one that is written so in another case or has such a name.
fn meant(wanted: &str, choices: Vec<Choice>) -> String {
    if choices.iter().any(|(id, _)| id == wanted) {
        return wanted.to_owned();
    }
    let is_alike =
        |(id, name): &Choice| id.eq_ignore_ascii_case(wanted) || name.trim().eq_ignore_ascii_case(wanted);
    let mut alike = choices.into_iter().filter(is_alike);
    match (alike.next(), alike.next()) {
        (Some((id, _)), None) => id,
        _ => wanted.to_owned(),
    }
}

const MODE: &str = "mode";
const MODEL: &str = "model";

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent says when it opens a session.
    fn state(json: &str) -> SessionState {
        serde_json::from_str(json).expect(json)
    }

    const LEGACY: &str = r#"{
        "models":{"currentModelId":"big","availableModels":[{"modelId":"big","name":"Big One"},{"modelId":"small","name":"s"}]},
        "modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask first"},{"id":"code","name":"Code"}]}}"#;
    const OPTIONS: &str = r#"{
        "modes":{"currentModeId":"old","availableModes":[{"id":"old","name":"Old"}]},
        "models":{"currentModelId":"old","availableModels":[{"modelId":"old","name":"Old"}]},
        "configOptions":[
        {"id":"permission","name":"Mode","category":"mode","type":"select","currentValue":"build","options":[
            {"group":"g","name":"G","options":[{"value":"build","name":"Build"},{"value":"plan","name":"Plan it"}]}]},
        {"id":"m","name":"Model","category":"model","type":"select","currentValue":"x","options":[{"value":"x","name":"X"}]},
        {"id":"fast","name":"Fast","type":"boolean","currentValue":false},
        {"id":"verbose","name":"Verbose","type":"select","currentValue":"true","options":[
            {"value":"true","name":"T"},{"value":"false","name":"F"},{"later":1}]}]}"#;

    fn model(value: &str) -> Setting {
        Setting::Model(value.into())
    }

    fn mode(value: &str) -> Setting {
        Setting::Mode(value.into())
    }

    fn option(name: &str, value: &str) -> Setting {
        Setting::Option(name.into(), value.into())
    }

    fn told(option: &str, id: &str) -> Result<Request, Unsettable> {
        Ok(Request::Option(option.into(), ConfigValue::Id(id.into())))
    }

    #[test]
    fn mode_as_config_option_and_the_places_that_were_there_before() {
        let (old, new) = (state(LEGACY), state(OPTIONS));
        for (wanted, before, now) in [
            (mode("code"), Ok(Request::Mode("code".into())), told("permission", "code")),
            (mode("ask FIRST"), Ok(Request::Mode("ask".into())), told("permission", "ask FIRST")),
            (mode("Plan It"), Ok(Request::Mode("Plan It".into())), told("permission", "plan")),
            (model("Big one"), Ok(Request::Model("big".into())), told("m", "Big one")),
            (model("X"), Ok(Request::Model("X".into())), told("m", "x")),
            (option("mode", "code"), Ok(Request::Mode("code".into())), told("permission", "code")),
            (option("model", "small"), Ok(Request::Model("small".into())), told("m", "small")),
        ] {
            assert_eq!(old.request(&wanted), before, "{wanted:?}");
            assert_eq!(new.request(&wanted), now, "{wanted:?}");
        }
    }

    #[test]
    fn option_type_guessed_from_word_it_is_not() {
        let state = state(OPTIONS);
        assert_eq!(state.request(&option("verbose", "true")), told("verbose", "true"));
        for (word, on) in [("true", true), ("ON", true), ("off", false), ("no", false)] {
            let request = Request::Option("fast".into(), ConfigValue::Bool(on));
            assert_eq!(state.request(&option("fast", word)), Ok(request));
        }
        let fault = Unsettable::NotABool { option: "fast".into(), value: "maybe".into() };
        assert_eq!(state.request(&option("fast", "maybe")), Err(fault));
    }

    #[test]
    fn what_is_not_offered_is_said_with_what_is() {
        let nothing = SessionState::default();
        for (wanted, words) in [(mode("x"), "choice of modes"), (model("x"), "choice of models")] {
            let error = nothing.request(&wanted).unwrap_err();
            assert_eq!(error.to_string(), format!("the agent offers no {words}"));
        }
        let error = state(OPTIONS).request(&option("effort", "high")).unwrap_err();
        let options = ["permission", "m", "fast", "verbose"].map(str::to_owned).into();
        assert_eq!(error, Unsettable::NotOffered { what: "option effort".into(), options });
    }

    #[test]
    fn the_values_of_each_place_are_listed() {
        let (old, new) = (state(LEGACY), state(OPTIONS));
        assert_eq!(old.values(&mode("x")), ["ask", "code"]);
        assert_eq!(old.values(&model("x")), ["big", "small"]);
        assert_eq!(new.values(&mode("x")), ["build", "plan"]);
        assert_eq!(new.values(&option("fast", "x")), ["true", "false"]);
        assert_eq!(new.values(&option("verbose", "x")), ["true", "false"]);
        assert!(new.values(&option("none", "x")).is_empty());
    }
}
