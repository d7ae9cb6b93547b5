//! Compares the tokens of a JSON text with those of a document that serde_json has parsed. Text that is not JSON gives
//! no tokens.

use claims_json::testing::Flat;
use claims_json::{Token, Tokens};
use claims_model::json::{Document, NotJson};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns all tokens of a document: one for each bracket, key and scalar.
fn tokens_of(value: &Value, tokens: &mut dyn Tokens<'_>) -> Vec<String> {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => 2 + items.iter().map(count).sum::<usize>(),
            Value::Object(fields) => 2 + fields.values().map(|value| 1 + count(value)).sum::<usize>(),
            _ => 1,
        }
    }
    (0..count(value)).map(|_| format!("{:?}", tokens.next())).collect()
}

fn agrees(value: &Value, text: &str) {
    let document =
        Document::read(text).unwrap_or_else(|NotJson { line, column }| panic!("refused at {line}, {column}: {text}"));
    assert_eq!(tokens_of(value, &mut document.tokens()), tokens_of(value, &mut Flat::new(value)), "{text}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[^\0]{0,12}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[^\0]{0,6}", inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    #[test]
    fn reads_what_serde_writes(value in any_json()) {
        agrees(&value, &value.to_string());
        agrees(&value, &serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn agrees_with_serde_on_what_is_json(value in any_json(), place in 0usize..200, other in "[\\[\\]{}:,\"\\\\0-9eE.+ntu-]{0,2}") {
        let mut text: Vec<char> = value.to_string().chars().collect();
        let place = place % (text.len() + 1);
        text.splice(place..(place + 1).min(text.len()), other.chars());
        let text: String = text.into_iter().collect();
        let parsed = serde_json::from_str::<Value>(&text);
        // PostgreSQL does not store the NUL character.
        if !text.contains("\\u0000") {
            prop_assert_eq!(Document::read(&text).is_ok(), parsed.is_ok(), "{}", text);
        }
    }

    #[test]
    fn never_panics(text in "\\PC{0,30}") {
        let _ = Document::read(&text);
    }
}

#[test]
fn escapes() {
    let text = r#""\"\\\/\b\f\n\r\tA\u00e9\u20AC\uD83E\uDD80""#;
    agrees(&serde_json::from_str(text).unwrap(), text);
    for text in [
        r#""\u0000""#,
        r#""\ud83e""#,
        r#""\ud83e\u0041""#,
        r#""\udd80""#,
        r#""\u12g4""#,
        r#""\u+123""#,
        r#""\x""#,
        "\"\n\"",
        "\"",
        r#""\"#,
        r#""\u00é""#,
    ] {
        assert!(Document::read(text).is_err(), "{text}");
    }
}

#[test]
fn only_integers_look_like_integers() {
    for (number, read) in [
        ("0", "0"),
        ("10", "10"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854775808"),
        ("1.0", "1.0"),
        ("-12.50", "-12.5"),
        ("1e3", "1000.0"),
        ("123456789012345678901234567890", "1.2345678901234568e29"),
    ] {
        let document = Document::read(number).expect("is a number");
        assert_eq!(document.tokens().next(), Token::Number(read.to_owned()));
    }
    for text in ["", "-", "01", "-01", "1.", ".5", "1e", "1e+", "1e400", "+1", "0x1", "1 2", "NaN"] {
        assert!(Document::read(text).is_err(), "{text}");
    }
}

#[test]
fn says_where_it_ends() {
    assert_eq!(Document::read("[1, 2").err(), Some(NotJson { line: 1, column: 5 }));
    assert_eq!(Document::read("[1, ]").err(), Some(NotJson { line: 1, column: 5 }));
    assert_eq!(Document::read("{\"a\"\n 1}").err(), Some(NotJson { line: 2, column: 2 }));
    assert_eq!(Document::read("[\"a\\u0000\"]").err(), Some(NotJson { line: 1, column: 10 }));
}

#[test]
fn too_deep_is_refused() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Document::read(&nested(127)).is_ok());
    assert!(Document::read(&nested(128)).is_err());
    assert!(Document::read(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn values_are_skipped() {
    let document = Document::read(r#"{"a": {"b": [1, {"c": "x"}, []]}, "d": "y"}"#).expect("is JSON");
    let mut tokens = document.tokens();
    assert_eq!((tokens.next(), tokens.next()), (Token::BeginObject, Token::Key("a")));
    tokens.skip_value();
    assert_eq!((tokens.next(), tokens.next(), tokens.next()), (Token::Key("d"), Token::Text("y"), Token::EndObject));
}
