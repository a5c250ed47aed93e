//! `--schema`: the last message of an answer is JSON of a given form, and nothing else.

use std::fmt::{Debug, Display};
use std::path::Path;

use serde_json::Value;

use crate::prompt::{of_file, read};
use crate::words::{Problem, quote};

#[cfg(feature = "schema")]
mod form;
#[cfg(not(feature = "schema"))]
mod none;

#[cfg(feature = "schema")]
use form::Form;
#[cfg(not(feature = "schema"))]
use none::Form;

/// A JSON Schema, and the words by which an agent is held to it.
pub(crate) struct Schema {
    /// As it was written.
    text: String,
    form: Form,
}

impl Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Schema {
    /// Reads one. It stands in this one file: nothing that it refers to is fetched.
    pub(crate) fn read(file: &Path) -> Result<Self, Problem> {
        let wrong = |why: &dyn Display| of_file(OPTION, file, format_args!("is no JSON Schema: {why}"));
        let bytes = read(OPTION, file, LIMIT)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong(&"it is not UTF-8"))?;
        let schema: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let form = Form::new(schema).map_err(|why| wrong(&why))?;
        Ok(Self { text, form })
    }

    /// What an agent is told along with its task.
    pub(crate) fn wish(&self) -> String {
        format!(
            "Your last message must be JSON, and nothing else, that fits this JSON Schema:\n{}",
            self.text.trim()
        )
    }

    /// The JSON of a message, as it was written, if it fits; else what is wrong with it.
    pub(crate) fn judge<'a>(&self, message: &'a str) -> Result<&'a str, String> {
        let json = bare(message)?;
        let value: Value = serde_json::from_str(json).map_err(|error| format!("it is no JSON: {error}"))?;
        self.form.check(&value).map_err(|why| quote(&why))?;
        Ok(json)
    }
}

/// What an agent is told whose answer does not fit.
pub(crate) fn again(why: &str) -> String {
    format!("{AGAIN} {why}\nSay it again: JSON that fits the schema, and nothing else.")
}

/// Whether that is what an agent is told whose answer does not fit.
pub(crate) fn is_again(prompt: &str) -> bool {
    prompt.starts_with(AGAIN)
}

/// A message without the fence around its JSON, and what is said beside that.
fn bare(message: &str) -> Result<&str, String> {
    let message = message.trim();
    let mut fences = message.split("```");
    let (before, block) = (fences.next().unwrap_or_default(), fences.next());
    // Without a fence, and where the fence is within a text of the JSON.
    let Some(block) = block.filter(|_| !before.trim_start().starts_with(['{', '[', '"'])) else {
        return Ok(message);
    };
    match (fences.next(), fences.next()) {
        (Some(_), None) => {
            let (language, json) = block.split_once('\n').unwrap_or(("", block));
            let is_json = matches!(language.trim(), "" | "json" | "JSON" | "jsonc");
            if is_json { Ok(json.trim()) } else { Err(format!("its block is of {}", quote(language))) }
        }
        (None, _) => Err("its block has no end".into()),
        (Some(_), Some(_)) => Err("it has more than one block".into()),
    }
}

const OPTION: &str = "--schema";
const AGAIN: &str = "Your last message is not what was asked for:";
/// Bytes of a schema: it is part of each prompt.
const LIMIT: usize = 1 << 20;

#[cfg(all(test, feature = "schema"))]
mod tests {
    use std::io::Write;

    use quickcheck::quickcheck;
    use serde_json::json;
    use tempfile::NamedTempFile;

    use super::*;

    fn read(schema: &str) -> Result<Schema, String> {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(schema.as_bytes()).expect("room");
        let path = file.path().to_str().expect("UTF-8").to_owned();
        Schema::read(file.path()).map_err(|problem| problem.message.replace(&path, "FILE"))
    }

    fn schema() -> Schema {
        let schema = json!({"type": "object", "required": ["name"], "additionalProperties": false, "properties":
            {"name": {"$ref": "#/$defs/word"}, "tags": {"items": {"enum": ["a", "b"]}}},
            "$defs": {"word": {"type": "string", "pattern": "^[a-z]+$"}}});
        read(&schema.to_string()).expect("a schema")
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        for (text, why) in [
            ("{", "FILE is no JSON Schema: EOF while parsing an object at line 1 column 1"),
            ("7", "FILE is no JSON Schema: want boolean or object, but got number"),
            (
                r#"{"properties": {"a": {"minimum": "x"}}}"#,
                "FILE is no JSON Schema: at /properties/a/minimum: want number, but got string",
            ),
            (r##"{"$ref": "#/$defs/a"}"##, "FILE is no JSON Schema: json-pointer in #/$defs/a not found"),
            (
                r#"{"$ref": "https://example.org/a.json"}"#,
                "FILE is no JSON Schema: it refers to https://example.org/a.json, and must stand in one file",
            ),
            (
                r#"{"$ref": "file:///etc/hostname"}"#,
                "FILE is no JSON Schema: it refers to file:///etc/hostname, and must stand in one file",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), format!("--schema: {why}"));
        }
        assert!(read(r#"{"pattern": "("}"#).unwrap_err().contains("at /pattern: "));
        for text in ["{}", "true", r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn json_is_found_in_its_fence_and_nowhere_else() {
        let schema = schema();
        let json = r#"{"name": "x"}"#;
        for message in [
            json.to_owned(),
            format!("\n {json}\n"),
            format!("```json\n{json}\n```"),
            format!("Here it is:\n\n```\n{json}\n```\nIs it right?"),
        ] {
            assert_eq!(schema.judge(&message), Ok(json), "{message}");
        }
        for (message, why) in [
            (format!("Here it is: {json}"), "it is no JSON: expected value at line 1 column 1"),
            (format!("```\n{json}\n```\n```\n{json}\n```"), "it has more than one block"),
            (format!("```json\n{json}"), "its block has no end"),
            (format!("```python\n{json}\n```"), "its block is of python"),
            (String::new(), "it is no JSON: EOF while parsing a value at line 1 column 0"),
        ] {
            assert_eq!(schema.judge(&message), Err(why.to_owned()), "{message}");
        }
        let open = read("true").expect("a schema");
        let fenced = r#"{"code": "```rust\nfn main() {}\n```"}"#;
        assert_eq!(open.judge(fenced), Ok(fenced));
    }

    #[test]
    fn each_thing_that_does_not_fit_is_named_with_its_place() {
        for (json, why) in [
            ("7", "want object, but got number"),
            (r#"{"name": "X"}"#, "at /name: 'X' does not match pattern '^[a-z]+$'"),
            (
                r#"{"tags": ["a", "c"], "more": 1}"#,
                "missing properties 'name'; at /tags/1: value must be one of 'a', 'b'; additionalProperties 'more' not allowed",
            ),
        ] {
            assert_eq!(schema().judge(json), Err(why.to_owned()), "{json}");
        }
        let long = format!(r#"{{"name": "{}"}}"#, "X".repeat(100_000));
        assert!(schema().judge(&long).unwrap_err().len() < 600);
    }

    quickcheck! {
        fn any_message_is_judged(message: String) -> bool {
            let judged = read("true").expect("a schema").judge(&message).is_ok();
            judged || serde_json::from_str::<Value>(&message).is_err()
        }
    }
}
