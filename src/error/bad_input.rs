//! Errors of input with a wrong form or size: one text for each problem.

use claims_model::limits::PAGE_BYTES;
use claims_model::{BadInput, NameProblem, Problem};
use pgrx::PgSqlErrorCode as Code;

use super::text::Text;

/// Returns the text of a problem.
pub(super) fn bad_input(BadInput { place, problem }: BadInput) -> Text {
    use Problem::*;
    let form = if place.starts_with("subjects") { SUBJECTS_FORM } else { FORM };
    let (message, detail, hint): (String, Option<String>, Option<&'static str>) = match &problem {
        NotJson { line, column } => (
            format!("{place} is not JSON"),
            Some(format!("The error is at line {line}, column {column}.")),
            Some("Send a text that is one JSON array, without \\u0000."),
        ),
        WrongType { wanted, got } => (format!("{place} must be {wanted}"), Some(format!("It is {got}.")), Some(form)),
        Missing => (format!("{place} is missing"), None, Some(form)),
        UnknownKey { allowed } => {
            (format!("unknown key {place}"), Some(format!("Allowed are: {allowed}.")), Some(form))
        }
        TwoSpellings { first } => (
            format!("{place} repeats \"{first}\""),
            Some("They are two spellings of one key.".into()),
            Some("Send only rails_primary_key_id."),
        ),
        NotAnInteger { got } => (
            format!("{place} must be an integer of 64 bits"),
            Some(format!("It is {got}.")),
            Some("Send ids that are no such integers as strings."),
        ),
        UnknownType { kind, got } => (
            format!("{place} names an unknown {kind} type"),
            Some(format!("There is no {kind} type \"{got}\".")),
            Some(
                "An administrator adds types with claims.add_bucket_type(), add_subject_type() and add_source_type().",
            ),
        ),
        Unspecified { kind } => (
            format!("{place} must not be UNSPECIFIED"),
            Some(format!("Every claim has a {kind} type.")),
            Some("Name a type other than UNSPECIFIED."),
        ),
        Empty => (format!("{place} must not be empty"), None, Some("Send at least one character.")),
        TooLong { limit } => (
            format!("{place} is too long"),
            Some(format!("At most {limit} characters are allowed.")),
            Some("Shorten it, or claim a digest of it."),
        ),
        TooManyBytes { got, limit } => (
            format!("{place} is too long"),
            Some(format!("It has {got} bytes in UTF-8, at most {limit} are allowed.")),
            Some("Shorten it, or claim a digest of it."),
        ),
        Duplicate { first } => (
            format!("{place} is in the batch twice"),
            Some(format!("The same bucket is at {first}.")),
            Some("Name each bucket once in a list; one that stands in both lists is replaced."),
        ),
        EmptyBatch => (
            "batch is empty: create_records and destroy_records have no records".into(),
            (place != "create_records").then(|| format!("It is {place}.")),
            Some("Call only when there is something to claim or to give back."),
        ),
        TooManyRecords { got, limit } => (
            format!("{place} has too many records"),
            Some(format!("There are {got} records, at most {limit} are allowed in one call.")),
            Some(
                "Send it in several calls. For a batch that must stay whole an administrator can raise claims.max_batch_size.",
            ),
        ),
        TooMany { what, got, limit } => (
            format!("{place} has too many {what}"),
            Some(format!("There are {got} {what}, at most {limit} are allowed in one call.")),
            Some("Name fewer in one call."),
        ),
        AnswerTooLarge => (
            format!("{place} ask for more than fits into one answer"),
            Some(format!("The answer would have more than {PAGE_BYTES} bytes.")),
            Some("Ask for fewer in one call."),
        ),
        NoName { problem } => (
            format!("{place} is not a valid name for its type"),
            Some(sentence(problem)),
            Some(
                "Choose another name; the type's profile says what is taken, and claims.canonical() what a name becomes.",
            ),
        ),
        NameTooLong { problem } => (
            format!("{place} is too long a name"),
            Some(sentence(problem)),
            Some("Shorten it, or claim a digest of it."),
        ),
        BadCursor => (
            format!("{place} is not a cursor of this list"),
            None,
            Some("Give the cursor of the last row seen, unchanged, or NULL to begin."),
        ),
        Null => (format!("{place} must not be null"), None, Some("Give a value.")),
        OutOfRange { allowed } => (
            format!("{place} is out of range"),
            Some(format!("Allowed is {allowed}.")),
            Some("Give a value in that range."),
        ),
    };
    Text(bad_input_code(&problem), message, detail, hint)
}

/// Formats the problem of a name as a sentence.
pub(super) fn sentence(problem: &NameProblem) -> String {
    let text = problem.to_string();
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // The problem may end with the dots of a path.
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", rest.as_str())
}

const FORM: &str = "A bucket is {\"type\", \"value\"}; a record is {\"bucket\": {\"type\", \"value\"}, \"subject\": {\"type\", \"id\"}, \"source\": {\"type\", \"rails_primary_key_id\"}}.";

const SUBJECTS_FORM: &str = "Subjects are [{\"type\", \"ids\": [...]}, ...].";

fn bad_input_code(problem: &Problem) -> Code {
    match problem {
        Problem::TooLong { .. } | Problem::TooManyBytes { .. } | Problem::NameTooLong { .. } => {
            Code::ERRCODE_STRING_DATA_RIGHT_TRUNCATION
        }
        Problem::TooManyRecords { .. } | Problem::TooMany { .. } | Problem::AnswerTooLarge => {
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED
        }
        Problem::NotJson { .. } => Code::ERRCODE_INVALID_TEXT_REPRESENTATION,
        _ => Code::ERRCODE_INVALID_PARAMETER_VALUE,
    }
}
