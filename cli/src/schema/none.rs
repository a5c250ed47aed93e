//! Where there is no validator, there is no schema.

use serde_json::Value;

pub(super) enum Form {}

impl Form {
    pub(super) fn new(_: Value) -> Result<Self, String> {
        Err("this agentline was built without the feature `schema`".into())
    }

    pub(super) fn check(&self, _: &Value) -> Result<(), String> {
        match *self {}
    }
}
