//! How values without a JSON form of their own stand in a trace.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;

/// Bytes as text where they are text, else as an array of numbers.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Loose {
    Text(String),
    Bytes(Vec<u8>),
}

impl Loose {
    fn new(bytes: &[u8]) -> Self {
        std::str::from_utf8(bytes)
            .map_or_else(|_| Self::Bytes(bytes.to_vec()), |text| Self::Text(text.into()))
    }

    fn os(self) -> OsString {
        match self {
            Self::Text(text) => text.into(),
            #[cfg(unix)]
            Self::Bytes(bytes) => std::os::unix::ffi::OsStringExt::from_vec(bytes),
            #[cfg(not(unix))]
            Self::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        }
    }
}

/// The bytes of a write.
pub(crate) fn wire<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    Loose::new(bytes).serialize(serializer)
}

/// A program, argument or path.
pub(crate) mod os {
    use std::ffi::OsStr;

    use super::{Deserialize, Deserializer, Loose, OsString, Serialize, Serializer};

    pub(crate) fn serialize<T: AsRef<OsStr>, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Loose::new(value.as_ref().as_encoded_bytes()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Loose::deserialize(deserializer).map(|value| value.os().into())
    }
}

pub(crate) mod os_list {
    use super::{Deserialize, Deserializer, Loose, OsString, Serializer};

    pub(crate) fn serialize<S: Serializer>(list: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|value| Loose::new(value.as_encoded_bytes())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
        Ok(Vec::<Loose>::deserialize(deserializer)?.into_iter().map(Loose::os).collect())
    }
}

/// An environment: names are shown, values are secrets.
pub(crate) mod os_env {
    use super::{Deserialize, Deserializer, Loose, OsString, Serializer};
    use crate::secret::{PLACEHOLDER, Secret};

    type Env = Vec<(OsString, Secret<OsString>)>;

    pub(crate) fn serialize<S: Serializer>(env: &Env, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(env.iter().map(|(name, _)| Loose::new(name.as_encoded_bytes())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Env, D::Error> {
        let names = Vec::<Loose>::deserialize(deserializer)?;
        Ok(names.into_iter().map(|name| (name.os(), Secret::new(PLACEHOLDER.into()))).collect())
    }
}
