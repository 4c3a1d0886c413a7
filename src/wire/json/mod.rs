//! JSON as the peers write it: number text kept, lone surrogates allowed, canonical forms.
//!
//! A signature covers bytes that its maker's JSON writer chose, so a verifier must be able to write
//! what Python and JavaScript would (facts F3, F4). That needs what ordinary parsers throw away: the
//! spelling of a number, the order of members, a lone surrogate (F5). [`Object::parse`] checks a
//! frame once and remembers where its members are; [`Raw::value`] builds the tree of one of them
//! when it is wanted; [`canonical`] writes the tree in one of the signed byte forms.

mod canonical;
mod error;
mod number;
mod object;
mod raw;
mod scan;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use canonical::{FORMS, Form, canonical, to_python, to_python_spaced};
pub use error::JsonError;
pub use object::Object;
pub use raw::{Kind, Raw};
pub use text::Str;
pub use value::Value;

/// How deep arrays and objects may nest: 128 is read, 129 is refused (F60).
pub const MAX_DEPTH: usize = 128;
