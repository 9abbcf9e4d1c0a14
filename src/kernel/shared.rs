//! A value that many tasks may hold at once.

use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use std::ops::Deref;
use std::sync::Arc;

/// A value behind a reference count; equal ones of neighbouring tasks are kept once, and whoever
/// changes it gets a copy of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// A value that nobody shares yet.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T: Clone> Shared<T> {
    /// The value, to be changed for this holder alone.
    pub fn make_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<C, T: minicbor::Encode<C>> minicbor::Encode<C> for Shared<T> {
    fn encode<W: Write>(
        &self,
        e: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        self.0.encode(e, context)
    }
}

impl<'b, C, T: minicbor::Decode<'b, C>> minicbor::Decode<'b, C> for Shared<T> {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, decode::Error> {
        T::decode(d, context).map(Self::new)
    }
}
