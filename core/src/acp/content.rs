//! Content blocks: what prompts, messages and tool calls are made of (ACP, content).

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Json;
use super::lenient::{or_default, text_or_none};
use crate::rpc::Text;

/// One piece of content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ContentBlock {
    /// Plain text or Markdown.
    Text(TextContent),
    /// A picture. Prompts may hold it where `promptCapabilities.image` says so.
    Image(ImageContent),
    /// Sound. Prompts may hold it where `promptCapabilities.audio` says so.
    Audio(AudioContent),
    /// A file or page to be fetched by whoever needs it.
    ResourceLink(ResourceLink),
    /// A file or page with its content.
    Resource(EmbeddedResource),
    /// A type that this version of the protocol does not have, as it was written.
    Unknown(Unknown),
}

/// A tagged value with a tag that is not known, kept whole so that it survives a hop.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unknown {
    /// The value of its `type`, or of `sessionUpdate`.
    pub tag: String,
    /// The whole value, tag included.
    pub raw: Json,
}

/// The content of a text block.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct TextContent {
    /// Plain text or Markdown; which is not said.
    pub text: String,
    /// Who it is for and how important it is, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The content of an image block.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageContent {
    /// The bytes of the file in base64.
    pub data: String,
    /// The media type, such as `image/png`.
    pub mime_type: String,
    /// Where it comes from.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Who it is for and how important it is, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The content of an audio block.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AudioContent {
    /// The bytes of the file in base64.
    pub data: String,
    /// The media type, such as `audio/wav`.
    pub mime_type: String,
    /// Who it is for and how important it is, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A link to a resource.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLink {
    /// The URI that it goes by, `file:` for a file.
    pub uri: String,
    /// Its short name for people, such as the file's.
    pub name: String,
    /// A longer name for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it holds, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type, such as `text/plain`, where it is known.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its size in bytes, where it is known.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Who it is for and how important it is, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A resource with its content.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// The URI and what is there.
    pub resource: Resource,
    /// Who it is for and how important it is, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, `_meta` on the wire, as it was written.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The content of a resource: text or bytes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Resource {
    /// A resource that is text.
    #[serde(rename_all = "camelCase")]
    Text {
        /// The URI that it goes by, `file:` for a file.
        uri: String,
        /// The whole text of the resource.
        text: String,
        /// The media type, such as `text/plain`, where it is known.
        #[serde(default, deserialize_with = "text_or_none", skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A resource that is bytes.
    #[serde(rename_all = "camelCase")]
    Blob {
        /// The URI that it goes by, `file:` for a file.
        uri: String,
        /// The whole resource in base64.
        blob: String,
        /// The media type, such as `application/pdf`, where it is known.
        #[serde(default, deserialize_with = "text_or_none", skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

impl ContentBlock {
    /// A text block without annotations.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// The text, if it is a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(content) => Some(&content.text),
            Self::Image(_)
            | Self::Audio(_)
            | Self::ResourceLink(_)
            | Self::Resource(_)
            | Self::Unknown(_) => None,
        }
    }

    /// A link in the place of a resource; anything else as it is.
    #[must_use]
    pub fn linked(self) -> Self {
        let Self::Resource(EmbeddedResource { resource, annotations, meta }) = self else { return self };
        let (Resource::Text { uri, mime_type, .. } | Resource::Blob { uri, mime_type, .. }) = resource;
        let name = uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&uri).to_owned();
        let (title, description, size) = (None, None, None);
        Self::ResourceLink(ResourceLink { uri, name, title, description, mime_type, size, annotations, meta })
    }

    /// The wire's name of the type.
    #[must_use]
    pub fn tag(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::Audio(_) => "audio",
            Self::ResourceLink(_) => "resource_link",
            Self::Resource(_) => "resource",
            Self::Unknown(unknown) => &unknown.tag,
        }
    }
}

impl ContentBlock {
    /// Reads a block as it was written.
    fn read(json: &str) -> Result<Self, serde_json::Error> {
        let tag = tag_of(json, "type").ok_or_else(|| Error::missing_field("type"))?;
        match &*tag {
            "text" => serde_json::from_str(json).map(Self::Text),
            "image" => serde_json::from_str(json).map(Self::Image),
            "audio" => serde_json::from_str(json).map(Self::Audio),
            "resource_link" => serde_json::from_str(json).map(Self::ResourceLink),
            "resource" => serde_json::from_str(json).map(Self::Resource),
            _ => Ok(Self::Unknown(Unknown { tag: tag.into_owned(), raw: Json::of(json)? })),
        }
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(<&'de RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tag = self.tag();
        match self {
            Self::Text(fields) => Tagged { tag, fields }.serialize(serializer),
            Self::Image(fields) => Tagged { tag, fields }.serialize(serializer),
            Self::Audio(fields) => Tagged { tag, fields }.serialize(serializer),
            Self::ResourceLink(fields) => Tagged { tag, fields }.serialize(serializer),
            Self::Resource(fields) => Tagged { tag, fields }.serialize(serializer),
            Self::Unknown(unknown) => unknown.raw.serialize(serializer),
        }
    }
}

/// The string member `name` of an object, without decoding the rest; the first one counts.
pub(super) fn tag_of<'a>(json: &'a str, name: &'static str) -> Option<Cow<'a, str>> {
    struct Tag(&'static str);

    impl<'de> Visitor<'de> for Tag {
        type Value = Option<Cow<'de, str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut tag = None;
            while let Some(Text(key)) = map.next_key()? {
                if key == self.0 && tag.is_none() {
                    tag = Some(map.next_value::<Text<'de>>()?.0);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(tag)
        }
    }

    // Nearly everybody writes it first, and without escapes.
    let first = json.strip_prefix("{\"").and_then(|rest| rest.strip_prefix(name)?.strip_prefix("\":\""));
    if let Some(tag) = first.and_then(|rest| rest.get(..memchr2(b'"', b'\\', rest.as_bytes())?)) {
        let end = 2 + name.len() + 3 + tag.len();
        if json.as_bytes().get(end) == Some(&b'"') {
            return Some(Cow::Borrowed(tag));
        }
    }
    let mut json = serde_json::Deserializer::from_str(json);
    json.deserialize_map(Tag(name)).ok().flatten()
}

/// An object with its `type` in front of its fields.
#[derive(Serialize)]
pub(super) struct Tagged<'a, T> {
    #[serde(rename = "type")]
    pub(super) tag: &'a str,
    #[serde(flatten)]
    pub(super) fields: &'a T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_media_type_of_a_resource_costs_only_itself() {
        for (given, expected) in [(r#""text/plain""#, Some("text/plain")), ("7", None), ("null", None)] {
            let text = format!(r#"{{"uri":"file:///f","text":"t","mimeType":{given}}}"#);
            let blob = format!(r#"{{"uri":"file:///f","blob":"aGk=","mimeType":{given}}}"#);
            for json in [text, blob] {
                let read: Resource = serde_json::from_str(&json).unwrap();
                let (Resource::Text { mime_type, .. } | Resource::Blob { mime_type, .. }) = &read;
                assert_eq!(mime_type.as_deref(), expected, "{json}");
            }
        }
    }
}
