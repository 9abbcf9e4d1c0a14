//! Text that is shared, never changed: type names, keys, payloads.

use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Immutable text behind a reference count: a clone costs one increment, so an event, the state
/// and a snapshot hold the same payload once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// The text's first `bytes_max` bytes, cut at a character.
    #[must_use]
    pub fn clipped(text: &str, bytes_max: usize) -> Self {
        Self::from(text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text))
    }
}

/// Texts that come again and again, each kept once.
#[derive(Clone, Debug, Default)]
pub struct Texts(BTreeSet<Text>);

impl Texts {
    /// Lets `text` be the one of its kind that is known; the first of a kind becomes it.
    pub fn share(&mut self, text: &mut Text) {
        if let Some(known) = self.0.get(&**text) {
            text.clone_from(known);
        } else {
            self.0.insert(text.clone());
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<Box<str>> for Text {
    fn from(text: Box<str>) -> Self {
        Self(Arc::from(text))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl<C> minicbor::Encode<C> for Text {
    fn encode<W: Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> minicbor::Decode<'b, C> for Text {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        d.str().map(Self::from)
    }
}
