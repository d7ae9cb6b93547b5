//! Reads JSON text as tokens. serde_json reads it once, and no jsonb is built from it. A cell sends records by the
//! thousand, where that matters.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use claims_json::{Token, Tokens};

/// A parsed JSON text.
pub struct Document {
    /// The keys, strings and numbers, one after the other.
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    BeginObject,
    EndObject,
    /// The begin of an array, with its number of elements.
    BeginArray(usize),
    EndArray,
    /// The end of the key, string or number in `text`. It begins where the previous one ends.
    Key(usize),
    Text(usize),
    Number(usize),
    Bool,
    Null,
}

/// The text is not JSON, or PostgreSQL could not store it. `line` and `column` say where, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson {
    pub line: usize,
    pub column: usize,
}

impl Document {
    /// Parses a text. Arrays and objects can be nested 127 deep.
    pub fn read(json: &str) -> Result<Document, NotJson> {
        // A record has a piece for every six bytes.
        let pieces = Vec::with_capacity(json.len() / 6);
        let mut document = Document { text: String::with_capacity(json.len()), pieces };
        let mut reader = serde_json::Deserializer::from_str(json);
        let read = Taken(&mut document).deserialize(&mut reader).and_then(|()| reader.end());
        read.map(|()| document).map_err(|error| NotJson { line: error.line(), column: error.column() })
    }

    pub fn tokens(&self) -> DocumentTokens<'_> {
        DocumentTokens { document: self, next: 0, end: 0 }
    }
}

pub struct DocumentTokens<'a> {
    document: &'a Document,
    next: usize,
    /// The end of the last key, string or number.
    end: usize,
}

impl<'a> DocumentTokens<'a> {
    fn until(&mut self, end: usize) -> &'a str {
        let text = &self.document.text[self.end..end];
        self.end = end;
        text
    }
}

impl<'a> Tokens<'a> for DocumentTokens<'a> {
    fn next(&mut self) -> Token<'a> {
        let piece = self.document.pieces.get(self.next).copied().unwrap_or(Piece::Null);
        self.next += 1;
        match piece {
            Piece::BeginObject => Token::BeginObject,
            Piece::EndObject => Token::EndObject,
            Piece::BeginArray(count) => Token::BeginArray(count),
            Piece::EndArray => Token::EndArray,
            Piece::Key(end) => Token::Key(self.until(end)),
            Piece::Text(end) => Token::Text(self.until(end)),
            Piece::Number(end) => Token::Number(self.until(end).to_owned()),
            Piece::Bool => Token::Bool,
            Piece::Null => Token::Null,
        }
    }

    fn skip_value(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.next() {
                Token::BeginArray(_) | Token::BeginObject => depth += 1,
                Token::EndArray | Token::EndObject => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

/// A serde seed that appends one value to the document.
struct Taken<'d>(&'d mut Document);

impl Taken<'_> {
    fn piece<E>(self, piece: Piece) -> Result<(), E> {
        self.0.pieces.push(piece);
        Ok(())
    }

    /// Appends a key, a string or a number, and the piece with its end.
    fn text<E: Error>(self, text: &str, piece: fn(usize) -> Piece) -> Result<(), E> {
        if text.contains('\0') {
            return Err(E::custom("PostgreSQL does not store NUL"));
        }
        self.0.text.push_str(text);
        let end = self.0.text.len();
        self.piece(piece(end))
    }
}

impl<'de> DeserializeSeed<'de> for Taken<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Taken<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.piece(Piece::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.piece(Piece::Bool)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.text(&number.to_string(), Piece::Number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.text(&number.to_string(), Piece::Number)
    }

    /// Writes a point or an exponent also if there is no fraction, because the number was not written as an integer or
    /// is too large for one.
    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.text(&format!("{number:?}"), Piece::Number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.text(text, Piece::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let document = self.0;
        let begun = document.pieces.len();
        document.pieces.push(Piece::BeginArray(0));
        let mut count = 0;
        while elements.next_element_seed(Taken(document))?.is_some() {
            count += 1;
        }
        document.pieces[begun] = Piece::BeginArray(count);
        document.pieces.push(Piece::EndArray);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let document = self.0;
        document.pieces.push(Piece::BeginObject);
        while fields.next_key_seed(TakenKey(document))?.is_some() {
            fields.next_value_seed(Taken(document))?;
        }
        document.pieces.push(Piece::EndObject);
        Ok(())
    }
}

/// A serde seed that appends the key of a field.
struct TakenKey<'d>(&'d mut Document);

impl<'de> DeserializeSeed<'de> for TakenKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for TakenKey<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        Taken(self.0).text(text, Piece::Key)
    }
}
