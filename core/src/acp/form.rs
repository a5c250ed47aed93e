//! The form of an elicitation: its fields as they are to be shown, and what may be written into them
//! (ACP, elicitation).

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::Json;
use super::lenient::or_default;

/// A form, as far as it is understood.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Form {
    /// Its title, for people.
    pub title: Option<String>,
    /// What it is for, for people.
    pub description: Option<String>,
    /// Its fields, in the agent's order.
    pub fields: Vec<Field>,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// The name that its value goes by.
    pub name: String,
    /// The title, for people.
    pub title: Option<String>,
    /// What it is for, for people.
    pub description: Option<String>,
    /// Whether the form makes no sense without it.
    pub required: bool,
    /// What the agent proposes. It is no answer before a person has agreed to it.
    pub default: Option<Value>,
    /// What may be written into it.
    pub kind: FieldKind,
}

/// What may be written into a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A text of so many characters. A pattern or a format is for the agent to check.
    Text {
        /// Characters at least.
        least: u64,
        /// Characters at most.
        most: Option<u64>,
        /// `email`, `uri`, `date` or `date-time`, to be shown.
        format: Option<String>,
    },
    /// A whole number.
    Integer(Range),
    /// A number, whole or not.
    Number(Range),
    /// Yes or no.
    Bool,
    /// One of these.
    One(Vec<Choice>),
    /// Some of these.
    Some {
        /// What there is to choose from.
        of: Vec<Choice>,
        /// How many have to be chosen.
        least: u64,
        /// How many may be chosen.
        most: Option<u64>,
    },
    /// A field of a type that is not known: it cannot be shown, so a form that requires it can only be declined.
    Unknown(Json),
}

/// The bounds of a number, which are part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// The lowest that is taken.
    pub least: Option<f64>,
    /// The highest that is taken.
    pub most: Option<f64>,
}

/// A value to choose.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// The value, for the answer.
    pub value: String,
    /// What people choose it by.
    pub title: String,
    /// More about it.
    pub description: Option<String>,
}

/// Why something is no answer to a form.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Unfit {
    /// The name of the field.
    pub field: String,
    /// What is wrong, without the value.
    pub why: String,
}

impl Form {
    /// The form that a schema describes. What cannot be read is left out; of a schema that is none, nothing is left.
    #[must_use]
    pub fn read(schema: &Json) -> Self {
        let written: Written = serde_json::from_str(schema.get()).unwrap_or_default();
        let Written { title, description, properties, required } = written;
        let Ordered(properties) = properties;
        let fields = properties.into_iter().map(|(name, raw)| {
            let required = required.contains(&name);
            field(name, required, &raw)
        });
        Self { title, description, fields: fields.collect() }
    }

    /// Whether that object may be the answer.
    ///
    /// # Errors
    ///
    /// The first field that is missing, unknown, or of a value that it does not take.
    pub fn check(&self, content: &serde_json::Map<String, Value>) -> Result<(), Unfit> {
        let unfit = |field: &str, why: &str| Err(Unfit { field: field.to_owned(), why: why.to_owned() });
        if let Some(unknown) =
            content.keys().find(|name| self.fields.iter().all(|field| field.name != **name))
        {
            return unfit(unknown, "the form has no such field");
        }
        for field in &self.fields {
            match content.get(&field.name) {
                None if field.required => return unfit(&field.name, "it is required"),
                None => {}
                Some(value) => field.check(value)?,
            }
        }
        Ok(())
    }
}

impl Field {
    /// What people call it.
    #[must_use]
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// Whether that value may stand in it.
    ///
    /// # Errors
    ///
    /// It may not, and why.
    pub fn check(&self, value: &Value) -> Result<(), Unfit> {
        let wrong = |why: String| Err(Unfit { field: self.name.clone(), why });
        match (&self.kind, value) {
            (FieldKind::Text { least, most, .. }, Value::String(text)) => {
                let letters = text.chars().count() as u64;
                within(letters, *least, *most, "characters").map_or(Ok(()), wrong)
            }
            (FieldKind::Text { .. }, _) => wrong("it takes a text".into()),
            (FieldKind::Integer(range), Value::Number(number)) if is_whole(number) => {
                range.refuses(number).map_or(Ok(()), wrong)
            }
            (FieldKind::Integer(_), _) => wrong("it takes a whole number".into()),
            (FieldKind::Number(range), Value::Number(number)) => range.refuses(number).map_or(Ok(()), wrong),
            (FieldKind::Number(_), _) => wrong("it takes a number".into()),
            (FieldKind::Bool, Value::Bool(_)) => Ok(()),
            (FieldKind::Bool, _) => wrong("it takes true or false".into()),
            (FieldKind::One(of), Value::String(text)) if is_one(of, text) => Ok(()),
            (FieldKind::One(of), _) => wrong(format!("it takes one of {}", values(of))),
            (FieldKind::Some { of, least, most }, Value::Array(chosen)) => {
                let mut chosen = chosen.iter().map(Value::as_str);
                let count = chosen.len() as u64;
                if !chosen.all(|one| one.is_some_and(|one| is_one(of, one))) {
                    return wrong(format!("it takes a list of some of {}", values(of)));
                }
                within(count, *least, *most, "of them").map_or(Ok(()), wrong)
            }
            (FieldKind::Some { of, .. }, _) => wrong(format!("it takes a list of some of {}", values(of))),
            (FieldKind::Unknown(_), _) => wrong("it is of a type that is not known".into()),
        }
    }
}

impl Range {
    fn refuses(self, number: &serde_json::Number) -> Option<String> {
        let number = number.as_f64()?;
        if let Some(least) = self.least.filter(|least| number < *least) {
            return Some(format!("at least {least}"));
        }
        let most = self.most.filter(|most| number > *most)?;
        Some(format!("at most {most}"))
    }
}

fn within(count: u64, least: u64, most: Option<u64>, of: &str) -> Option<String> {
    if count < least {
        return Some(format!("at least {least} {of}"));
    }
    most.filter(|most| count > *most).map(|most| format!("at most {most} {of}"))
}

fn is_whole(number: &serde_json::Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn is_one(of: &[Choice], value: &str) -> bool {
    of.iter().any(|choice| choice.value == value)
}

fn values(of: &[Choice]) -> String {
    let named: Vec<&str> = of.iter().take(NAMED).map(|choice| &*choice.value).collect();
    let more = if of.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}

/// Values that an error names.
const NAMED: usize = 20;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(deserialize_with = "or_default")]
    title: Option<String>,
    #[serde(deserialize_with = "or_default")]
    description: Option<String>,
    #[serde(deserialize_with = "or_default")]
    properties: Ordered,
    #[serde(deserialize_with = "or_default")]
    required: Vec<String>,
}

/// The members of an object, in the order they were written. Of two of one name the later one counts.
#[derive(Default)]
struct Ordered(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Ordered, M::Error> {
                let mut members: Vec<(String, Json)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    members.retain(|(known, _)| *known != name);
                    if members.len() < FIELDS {
                        members.push((name, map.next_value()?));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Ordered(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Fields of a form. Nobody fills in more.
const FIELDS: usize = 256;

fn field(name: String, required: bool, raw: &Json) -> Field {
    let property: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let text = |key| property.get(key).and_then(Value::as_str).map(str::to_owned);
    Field {
        title: text("title"),
        description: text("description"),
        required,
        default: property.get("default").filter(|value| !value.is_null()).cloned(),
        kind: kind(&property).unwrap_or_else(|| FieldKind::Unknown(raw.clone())),
        name,
    }
}

/// Only what is understood counts: a bound of a wrong type is none.
fn kind(property: &Value) -> Option<FieldKind> {
    let count = |key| property.get(key).and_then(Value::as_u64);
    let bound = |key| property.get(key).and_then(Value::as_f64);
    let range = Range { least: bound("minimum"), most: bound("maximum") };
    // What lists its values needs no type.
    if let Some(of) = choices(property) {
        return Some(FieldKind::One(of));
    }
    Some(match property.get("type")?.as_str()? {
        "string" => FieldKind::Text {
            least: count("minLength").unwrap_or_default(),
            most: count("maxLength"),
            format: property.get("format").and_then(Value::as_str).map(str::to_owned),
        },
        "integer" => FieldKind::Integer(range),
        "number" => FieldKind::Number(range),
        "boolean" => FieldKind::Bool,
        "array" => FieldKind::Some {
            of: choices(property.get("items")?)?,
            least: count("minItems").unwrap_or_default(),
            most: count("maxItems"),
        },
        _ => return None,
    })
}

/// The values that are listed, with titles or without.
fn choices(property: &Value) -> Option<Vec<Choice>> {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let titles = property.get("enumNames").and_then(Value::as_array);
        let values = values.iter().enumerate().filter_map(|(at, value)| {
            let value = value.as_str()?;
            let title = titles.and_then(|titles| titles.get(at)?.as_str()).unwrap_or(value);
            Some(Choice { value: value.to_owned(), title: title.to_owned(), description: None })
        });
        return Some(values.collect());
    }
    let titled = property.get("oneOf").or_else(|| property.get("anyOf"))?.as_array()?;
    let values = titled.iter().filter_map(|choice| {
        let text = |key| choice.get(key).and_then(Value::as_str);
        let value = text("const")?;
        Some(Choice {
            value: value.to_owned(),
            title: text("title").unwrap_or(value).to_owned(),
            description: text("description").map(str::to_owned),
        })
    });
    Some(values.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(properties: &str, required: &[&str]) -> Form {
        let required = json!(required);
        Form::read(
            &serde_json::from_str(&format!(
                r#"{{"type":"object","properties":{properties},"required":{required}}}"#
            ))
            .expect("JSON"),
        )
    }

    fn checked(form: &Form, content: &Value) -> String {
        let content = content.as_object().expect("an object");
        form.check(content).map_or_else(|unfit| unfit.to_string(), |()| "fits".to_owned())
    }

    #[test]
    fn fields_keep_the_order_of_the_agent_and_each_says_what_it_takes() {
        let form = form(
            r#"{"z":{"type":"string","title":"Zed","minLength":2,"maxLength":3},"a":{"type":"integer","minimum":1,"maximum":9,"default":4},
            "n":{"type":"number"},"b":{"type":"boolean"},"e":{"type":"string","enum":["x","y"],"enumNames":["X!"]},
            "o":{"oneOf":[{"const":"p","title":"P"},{"title":"no value"}]},
            "m":{"type":"array","items":{"anyOf":[{"const":"q"},{"const":"r"}]},"minItems":1},"u":{"type":"null"},"w":5}"#,
            &["z"],
        );
        let names: Vec<&str> = form.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["z", "a", "n", "b", "e", "o", "m", "u", "w"]);
        assert_eq!((form.fields[0].label(), form.fields[1].label()), ("Zed", "a"));
        assert_eq!(form.fields[1].default, Some(json!(4)));
        for (content, said) in [
            (json!({"z": "ab"}), "fits"),
            (json!({}), "z: it is required"),
            (json!({"z": "a"}), "z: at least 2 characters"),
            (json!({"z": "äöüß"}), "z: at most 3 characters"),
            (json!({"z": 5}), "z: it takes a text"),
            (json!({"z": "ab", "q": 1}), "q: the form has no such field"),
            (json!({"z": "ab", "a": 10}), "a: at most 9"),
            (json!({"z": "ab", "a": 2.0}), "fits"),
            (json!({"z": "ab", "a": 2.5}), "a: it takes a whole number"),
            (json!({"z": "ab", "n": 2.5, "b": false}), "fits"),
            (json!({"z": "ab", "b": "yes"}), "b: it takes true or false"),
            (json!({"z": "ab", "e": "y", "o": "p", "m": ["r", "q"]}), "fits"),
            (json!({"z": "ab", "e": "z"}), "e: it takes one of x, y"),
            (json!({"z": "ab", "m": []}), "m: at least 1 of them"),
            (json!({"z": "ab", "m": ["s"]}), "m: it takes a list of some of q, r"),
            (json!({"z": "ab", "m": "q"}), "m: it takes a list of some of q, r"),
            (json!({"z": "ab", "u": null}), "u: it is of a type that is not known"),
        ] {
            assert_eq!(checked(&form, &content), said, "{content}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_a_form_without_fields() {
        for schema in ["5", "null", "[]", "{}", r#"{"properties":[]}"#, r#"{"properties":{},"required":"a"}"#]
        {
            let form = Form::read(&serde_json::from_str(schema).expect("JSON"));
            assert_eq!(form.fields, [], "{schema}");
        }
        let twice = form(r#"{"a":{"type":"string"},"b":{"type":"string"},"a":{"type":"boolean"}}"#, &[]);
        let kinds: Vec<(&str, &FieldKind)> =
            twice.fields.iter().map(|field| (&*field.name, &field.kind)).collect();
        assert!(matches!(kinds[..], [("b", FieldKind::Text { .. }), ("a", FieldKind::Bool)]), "{kinds:?}");
    }
}
