//! The lies, in tables by kind.

mod copies;
mod ends;
mod errors;
mod frames;
mod greetings;
mod paces;
mod ranges;
mod rows;
mod storms;

use super::lie::Lie;

/// The size of large messages.
const LARGE: usize = 90 << 20;
/// The size of a piece of a flood.
const PIECE: usize = 64 << 10;

pub fn all() -> Vec<&'static Lie> {
    let answers =
        [rows::LIES, frames::LIES, ends::LIES, copies::LIES, errors::LIES, storms::LIES, paces::LIES, ranges::LIES];
    answers.into_iter().chain([greetings::LIES]).flatten().collect()
}

/// Repeats a message to fill a piece of a flood.
fn piece(message: &[u8]) -> Vec<u8> {
    message.repeat(PIECE.div_ceil(message.len().max(1)))
}
