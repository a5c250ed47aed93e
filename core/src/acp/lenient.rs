//! How forgiving each field is read: the leniency flags of the ACP schema (`x-deserialize-…`).

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
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
    struct Items<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element::<&'de RawValue>()? {
                items.extend(serde_json::from_str(item.get()).ok());
            }
            Ok(items)
        }
    }

    let raw = <&'de RawValue>::deserialize(deserializer)?;
    if !raw.get().starts_with('[') {
        return Ok(None);
    }
    Ok(serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Items(PhantomData)).ok())
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
