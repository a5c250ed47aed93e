//! How forgiving each field is read: the leniency flags of the ACP schema (`x-deserialize-…`).

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What is written as an object. Serde reads a struct from an array as well, by position; no peer means that.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// Reads an object, and nothing else.
pub(crate) fn object<'de, T: Deserialize<'de>>(json: &'de str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json).map(|Object(value)| value)
}

/// What is wrong, without the value that is: it may be a secret.
pub(super) fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(", expected ") {
        Some(at) => text.get(at + 2..).unwrap_or_default().to_owned(),
        None if text.starts_with("missing field") => text,
        None => format!("it cannot be read (column {})", error.column()),
    }
}

pub(super) use crate::rpc::or_default;

/// A text that is of no use where it is none; for members of untagged enums, whose values are there no more as they
/// were written.
pub(super) fn text_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(if let serde_json::Value::String(text) = value { Some(text) } else { None })
}

/// Bad items are left out, and a bad list is an empty one.
pub(super) fn items<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    some_items(deserializer).map(Option::unwrap_or_default)
}

/// Like [`items`], where an absent or bad list is told from an empty one.
pub(super) fn some_items<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    items_by(deserializer, |item| serde_json::from_str(item))
}

/// Like [`some_items`], of items that have a reader of their own.
pub(super) fn items_by<'de, D, T>(
    deserializer: D,
    read: impl Fn(&'de str) -> Result<T, serde_json::Error>,
) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
{
    let raw = <&'de RawValue>::deserialize(deserializer)?.get();
    let Some(inside) = raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else { return Ok(None) };
    let mut items = Vec::new();
    each_item(inside, |item| items.extend(read(item).ok()));
    Ok(Some(items))
}

/// Goes through what stands between the brackets of a list that is sound JSON. Serde would ask for memory to find where
/// an item ends.
fn each_item<'a>(inside: &'a str, mut seen: impl FnMut(&'a str)) {
    let (mut depth, mut start) = (0_usize, 0);
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let mut escaped = false;
                // To the quote that no backslash stands before.
                let _ = bytes.find(|(_, byte)| {
                    let ends = *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    ends
                });
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                seen(inside.get(start..at).unwrap_or_default().trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = inside.get(start..).unwrap_or_default().trim();
    if !last.is_empty() {
        seen(last);
    }
}

/// Null counts as empty, anything else must be right.
pub(super) fn or_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A capability: any object or true offers it, whichever of them the schema has; anything else does not.
pub(super) fn offered<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let raw = <&'de RawValue>::deserialize(deserializer)?;
    Ok(raw.get().starts_with('{') || raw.get() == "true")
}

/// A capability that is written as an object: `{}` when it is offered, left out when it is not.
pub(super) mod marker {
    use serde::ser::SerializeMap;
    use serde::{Deserializer, Serializer};

    pub(in crate::acp) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
        super::offered(deserializer)
    }

    pub(in crate::acp) fn serialize<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(Some(0))?.end()
    }
}

/// What is not worth writing.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_a_list_are_those_that_serde_finds() {
        for list in [
            "[]",
            " [ ] ",
            "[1]",
            "[1,2]",
            r#"[ "a,b" , "\"],[" , "\\" , {"x":[1,{"y":"}"}]} , [[],[]] , null , 1e999 ]"#,
        ] {
            let expected: Vec<&RawValue> = serde_json::from_str(list).expect("a list");
            let mut seen = Vec::new();
            let inside = list.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            each_item(inside.expect("brackets"), |item| seen.push(item));
            assert_eq!(seen, expected.iter().map(|raw| raw.get()).collect::<Vec<_>>(), "{list}");
        }
    }
}
