//! JSON as a stream of tokens. The extension reads them from binary jsonb; tests parse them from text. No function is
//! recursive; jsonb limits the depth of its input.
#![forbid(unsafe_code)]

/// A token of a JSON document.
#[derive(Debug, Clone, PartialEq)]
pub enum Token<'a> {
    BeginObject,
    EndObject,
    /// The begin of an array, with its number of elements.
    BeginArray(usize),
    EndArray,
    Key(&'a str),
    Text(&'a str),
    /// A number as jsonb prints it: without exponent, of any size.
    Number(String),
    Bool,
    Null,
}

impl Token<'_> {
    /// Returns the name of the JSON type that this token begins, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Token::BeginObject | Token::EndObject => "an object",
            Token::BeginArray(_) | Token::EndArray => "an array",
            Token::Key(_) => "a key",
            Token::Text(_) => "a string",
            Token::Number(_) => "a number",
            Token::Bool => "a boolean",
            Token::Null => "null",
        }
    }
}

/// A source of tokens.
pub trait Tokens<'a> {
    /// Returns the next token. After the last one it may return any token.
    fn next(&mut self) -> Token<'a>;
    /// Skips the next value, however large and deep it is.
    fn skip_value(&mut self);
}

/// Tokens of a parsed document, for tests.
pub mod testing {
    use super::{Token, Tokens};
    use serde_json::Value;

    /// A document as a list of its tokens.
    pub struct Flat<'a> {
        tokens: Vec<Token<'a>>,
        at: usize,
    }

    impl<'a> Flat<'a> {
        pub fn new(document: &'a Value) -> Self {
            let mut tokens = Vec::new();
            flatten(document, &mut tokens);
            Flat { tokens, at: 0 }
        }
    }

    fn flatten<'a>(value: &'a Value, out: &mut Vec<Token<'a>>) {
        match value {
            Value::Null => out.push(Token::Null),
            Value::Bool(_) => out.push(Token::Bool),
            Value::Number(number) => out.push(Token::Number(number.to_string())),
            Value::String(text) => out.push(Token::Text(text)),
            Value::Array(items) => {
                out.push(Token::BeginArray(items.len()));
                items.iter().for_each(|item| flatten(item, out));
                out.push(Token::EndArray);
            }
            Value::Object(fields) => {
                out.push(Token::BeginObject);
                for (key, item) in fields {
                    out.push(Token::Key(key));
                    flatten(item, out);
                }
                out.push(Token::EndObject);
            }
        }
    }

    impl<'a> Tokens<'a> for Flat<'a> {
        fn next(&mut self) -> Token<'a> {
            let token = self.tokens.get(self.at).cloned().unwrap_or(Token::Null);
            self.at += 1;
            token
        }

        fn skip_value(&mut self) {
            let mut depth = 0;
            loop {
                match self.next() {
                    Token::BeginObject | Token::BeginArray(_) => depth += 1,
                    Token::EndObject | Token::EndArray => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    return;
                }
            }
        }
    }
}
