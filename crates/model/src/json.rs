//! JSON text as tokens: read once, from its first byte to its last, instead of being made a jsonb that is read in turn. For records
//! that a cell sends by the thousand.

use crate::token::{Token, Tokens};

/// JSON text that was read. Numbers are kept as they are written.
pub struct Document {
    /// The keys, strings and numbers, one after the other.
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    BeginObject,
    EndObject,
    /// With the number of elements.
    BeginArray(usize),
    EndArray,
    /// These end, in the text, where they say, and begin where the last one ends.
    Key(usize),
    Text(usize),
    Number(usize),
    Bool,
    Null,
}

/// The text is not JSON, or nothing that Postgres could store, from this byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson {
    pub at: usize,
}

impl Document {
    pub fn read(json: &str) -> Result<Document, NotJson> {
        let document = Document { text: String::with_capacity(json.len()), pieces: Vec::new() };
        let mut scanner = Scanner { json, at: 0, document };
        scanner.document().ok_or(NotJson { at: scanner.at }).map(|()| scanner.document)
    }

    /// Its tokens, from the first one.
    pub fn tokens(&self) -> DocumentTokens<'_> {
        DocumentTokens { document: self, next: 0, end: 0 }
    }
}

/// The tokens of a [`Document`].
pub struct DocumentTokens<'a> {
    document: &'a Document,
    next: usize,
    /// Where the last key, string or number ends.
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

/// A container that is open while the text is read: where its token is, and how many elements or fields have begun.
struct Nest {
    is_object: bool,
    begun: usize,
    count: usize,
}

struct Scanner<'j> {
    json: &'j str,
    at: usize,
    document: Document,
}

impl Scanner<'_> {
    /// One value, and nothing behind it. `None`: here it is something else.
    fn document(&mut self) -> Option<()> {
        let mut open: Vec<Nest> = Vec::new();
        loop {
            self.value(&mut open)?;
            // Behind a value, or behind the bracket that opens a container.
            loop {
                let next = self.peek_behind_blanks();
                let Some(nest) = open.last_mut() else { return next.is_none().then_some(()) };
                let bracket = if nest.is_object { b'}' } else { b']' };
                if next != Some(bracket) {
                    if nest.count > 0 {
                        self.expect(b',')?;
                    }
                    nest.count += 1;
                    if nest.is_object {
                        self.key()?;
                    }
                    break;
                }
                self.at += 1;
                let Nest { is_object, begun, count } = open.pop()?;
                if !is_object {
                    self.document.pieces[begun] = Piece::BeginArray(count);
                }
                self.document.pieces.push(if is_object { Piece::EndObject } else { Piece::EndArray });
            }
        }
    }

    /// A scalar, or the opening bracket of a container.
    fn value(&mut self, open: &mut Vec<Nest>) -> Option<()> {
        let piece = match self.peek_behind_blanks()? {
            bracket @ (b'{' | b'[') => {
                self.at += 1;
                let is_object = bracket == b'{';
                open.push(Nest { is_object, begun: self.document.pieces.len(), count: 0 });
                if is_object { Piece::BeginObject } else { Piece::BeginArray(0) }
            }
            b'"' => Piece::Text(self.string()?),
            b'-' | b'0'..=b'9' => Piece::Number(self.number()?),
            b't' => self.word("true", Piece::Bool)?,
            b'f' => self.word("false", Piece::Bool)?,
            b'n' => self.word("null", Piece::Null)?,
            _ => return None,
        };
        self.document.pieces.push(piece);
        Some(())
    }

    fn key(&mut self) -> Option<()> {
        let is_string = self.peek_behind_blanks() == Some(b'"');
        let key = is_string.then(|| self.string())??;
        self.document.pieces.push(Piece::Key(key));
        self.peek_behind_blanks();
        self.expect(b':')
    }

    /// Takes a string in, and returns where it ends in the document's text.
    fn string(&mut self) -> Option<usize> {
        self.at += 1;
        loop {
            let rest = &self.json[self.at..];
            let plain = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
            self.document.text.push_str(&rest[..plain]);
            self.at += plain;
            match rest.as_bytes()[plain] {
                b'"' => break,
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
        self.at += 1;
        Some(self.document.text.len())
    }

    fn escape(&mut self) -> Option<()> {
        let letter = *self.json.as_bytes().get(self.at + 1)?;
        let character = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return None,
        };
        self.document.text.push(character);
        self.at += 2;
        Some(())
    }

    fn unicode_escape(&mut self) -> Option<()> {
        let first = self.four_digits()?;
        let units = if (0xD800..0xDC00).contains(&first) { vec![first, self.four_digits()?] } else { vec![first] };
        let character = char::decode_utf16(units).next()?.ok()?;
        self.document.text.push(Some(character).filter(|character| *character != '\0')?);
        Some(())
    }

    /// `\uXXXX`.
    fn four_digits(&mut self) -> Option<u16> {
        let digits = self.json.get(self.at..self.at + 6)?.strip_prefix("\\u")?;
        let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.at += 6;
        is_hexadecimal.then(|| u16::from_str_radix(digits, 16).ok())?
    }

    /// Takes a number in, and returns where it ends in the document's text.
    fn number(&mut self) -> Option<usize> {
        let from = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let is_zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && is_zero {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        self.document.text.push_str(&self.json[from..self.at]);
        Some(self.document.text.len())
    }

    /// One digit at least; how many.
    fn digits(&mut self) -> Option<usize> {
        let count = self.json[self.at..].bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        (count > 0).then_some(count)
    }

    fn word(&mut self, word: &str, piece: Piece) -> Option<Piece> {
        let is_it = self.json[self.at..].starts_with(word);
        self.at += word.len();
        is_it.then_some(piece)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it.then_some(())
    }

    fn peek(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }

    fn peek_behind_blanks(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.peek()
    }
}
