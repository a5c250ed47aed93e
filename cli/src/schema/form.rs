//! The validator.

use std::error::Error;

use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

/// A schema that is understood, in any draft from 4 to 2020-12.
pub(super) struct Form {
    schemas: Schemas,
    root: SchemaIndex,
}

impl Form {
    pub(super) fn new(schema: Value) -> Result<Self, String> {
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(Nothing));
        let mut schemas = Schemas::new();
        compiler.add_resource(NAME, schema).map_err(|error| said(&error))?;
        let root = compiler.compile(NAME, &mut schemas).map_err(|error| said(&error))?;
        Ok(Self { schemas, root })
    }

    /// What does not fit, each with its place.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.root).map_err(|error| faults(&error))
    }
}

fn said(error: &CompileError) -> String {
    if let CompileError::ValidationError { src, .. } = error {
        faults(src)
    } else if let CompileError::LoadUrlError { url, .. } | CompileError::UnsupportedUrlScheme { url } = error
    {
        format!("it refers to {url}, and must stand in one file")
    } else {
        error.to_string().replace(NAME, "")
    }
}

/// The faults that have no other fault as their cause.
fn faults(error: &ValidationError<'_, '_>) -> String {
    let mut said = Vec::new();
    let mut left = vec![error];
    while let Some(error) = left.pop() {
        left.extend(error.causes.iter().rev());
        if error.causes.is_empty() && said.len() < FAULTS {
            let (place, kind) = (error.instance_location.to_string(), &error.kind);
            let fault = if place.is_empty() { kind.to_string() } else { format!("at {place}: {kind}") };
            said.push(fault.replace(NAME, ""));
        }
    }
    said.join("; ")
}

/// Fetches nothing.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, _: &str) -> Result<Value, Box<dyn Error>> {
        Err("nothing is fetched".into())
    }
}

/// What the schema is called where it needs a name.
const NAME: &str = "schema:/";
/// Faults that are named.
const FAULTS: usize = 10;
