//! Writes records as JSON. Batches have thousands of them, and serde_json takes three times as long.

/// The id of a subject or a source.
pub(crate) enum JsonId<'a> {
    Null,
    Number(i64),
    Text(&'a str),
}

/// A record: the type and the value of a bucket, and the types and ids of subject and source, if it has them.
pub(crate) struct JsonRecord<'a> {
    pub bucket: (&'a str, &'a str),
    pub subject: Option<(&'a str, JsonId<'a>)>,
    pub source: Option<(&'a str, JsonId<'a>)>,
}

/// The estimated bytes of a record.
const LIKELY_BYTES: usize = 160;

/// Appends an array of records.
pub(crate) fn push_records<'a>(json: &mut String, records: impl Iterator<Item = JsonRecord<'a>>) {
    json.reserve(LIKELY_BYTES * records.size_hint().0);
    json.push('[');
    for (position, JsonRecord { bucket: (type_name, value), subject, source }) in records.enumerate() {
        if position > 0 {
            json.push(',');
        }
        json.push_str(r#"{"bucket":{"type":"#);
        push_text(json, type_name);
        json.push_str(r#","value":"#);
        push_text(json, value);
        json.push('}');
        push_end(json, r#","subject":{"type":"#, r#","id":"#, subject);
        push_end(json, r#","source":{"type":"#, r#","rails_primary_key_id":"#, source);
        json.push('}');
    }
    json.push(']');
}

fn push_end(json: &mut String, before_type: &str, before_id: &str, end: Option<(&str, JsonId)>) {
    let Some((type_name, id)) = end else { return };
    json.push_str(before_type);
    push_text(json, type_name);
    json.push_str(before_id);
    match id {
        JsonId::Null => json.push_str("null"),
        JsonId::Number(number) => json.push_str(&number.to_string()),
        JsonId::Text(text) => push_text(json, text),
    }
    json.push('}');
}

fn push_text(json: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        json.push_str(&serde_json::Value::from(text).to_string());
    } else {
        json.push('"');
        json.push_str(text);
        json.push('"');
    }
}
