//! Errors of input with a wrong form or size: one text for each problem.

use claims_model::limits::PAGE_BYTES;
use claims_model::{BadInput, Problem};

use super::declare::text;
use super::text::Text;

const FORM: &str = "A bucket is {\"type\", \"value\"}; a record is {\"bucket\": {\"type\", \"value\"}, \
    \"subject\": {\"type\", \"id\"}, \"source\": {\"type\", \"rails_primary_key_id\"}}.";

const SUBJECTS_FORM: &str = "Subjects are [{\"type\", \"ids\": [...]}, ...].";

const SHORTEN_OR_DIGEST: &str = "Shorten it, or claim a digest of it.";

impl From<BadInput> for Text {
    fn from(BadInput { path, problem }: BadInput) -> Text {
        use Problem::*;
        let form = if path.starts_with("subjects") { SUBJECTS_FORM } else { FORM };
        match problem {
            NotJson { line, column } => text!(ERRCODE_INVALID_TEXT_REPRESENTATION: "{path} is not JSON",
                detail "The error is at line {line}, column {column}.",
                hint "Send a text that is one JSON array, without \\u0000."),
            WrongType { wanted, got } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} must be {wanted}",
                detail "It is {got}.",
                hint "{form}"),
            Missing => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} is missing",
                hint "{form}"),
            UnknownKey { allowed } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "unknown key {path}",
                detail "Allowed are: {allowed}.",
                hint "{form}"),
            TwoSpellings { first } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} repeats \"{first}\"",
                detail "They are two spellings of one key.",
                hint "Send only rails_primary_key_id."),
            NotAnInteger { got } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} must be an integer of 64 bits",
                detail "It is {got}.",
                hint "Send ids that are no such integers as strings."),
            UnknownType { kind, got } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} names an unknown {kind} type",
                detail "There is no {kind} type \"{got}\".",
                hint "An administrator adds types with claims.add_bucket_type(), add_subject_type() and add_source_type()."),
            Unspecified { kind } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} must not be UNSPECIFIED",
                detail "Every claim has a {kind} type.",
                hint "Name a type other than UNSPECIFIED."),
            Empty => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} must not be empty",
                hint "Send at least one character."),
            TooLong { limit } => text!(ERRCODE_STRING_DATA_RIGHT_TRUNCATION: "{path} is too long",
                detail "At most {limit} characters are allowed.",
                hint "{SHORTEN_OR_DIGEST}"),
            TooManyBytes { got, limit } => text!(ERRCODE_STRING_DATA_RIGHT_TRUNCATION: "{path} is too long",
                detail "It has {got} bytes in UTF-8, at most {limit} are allowed.",
                hint "{SHORTEN_OR_DIGEST}"),
            Duplicate { first } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} is in the batch twice",
                detail "The same bucket is at {first}.",
                hint "Name each bucket once in a list; one that stands in both lists is replaced."),
            EmptyBatch => {
                text!(ERRCODE_INVALID_PARAMETER_VALUE: "batch is empty: create_records and destroy_records have no records",
                detail { (path != "create_records").then(|| format!("It is {path}.")) },
                hint "Call only when there is something to claim or to give back.")
            }
            TooManyRecords { got, limit } => text!(ERRCODE_PROGRAM_LIMIT_EXCEEDED: "{path} has too many records",
                detail "There are {got} records, at most {limit} are allowed in one call.",
                hint "Send it in several calls. \
                    For a batch that must stay whole an administrator can raise claims.max_batch_size."),
            TooMany { what, got, limit } => text!(ERRCODE_PROGRAM_LIMIT_EXCEEDED: "{path} has too many {what}",
                detail "There are {got} {what}, at most {limit} are allowed in one call.",
                hint "Name fewer in one call."),
            AnswerTooLarge => text!(ERRCODE_PROGRAM_LIMIT_EXCEEDED: "{path} ask for more than fits into one answer",
                detail "The answer would have more than {PAGE_BYTES} bytes.",
                hint "Ask for fewer in one call."),
            PayloadTooLarge => text!(ERRCODE_PROGRAM_LIMIT_EXCEEDED: "{path} has records that are too large together",
                detail "The payload of its lease would be larger than a jsonb can be, which is 256 MiB.",
                hint "Send it in several calls."),
            NoName { problem } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} is not a valid name for its type",
                detail { sentence(&problem) },
                hint "Choose another name; the type's profile says what is taken, and claims.canonical() what a name becomes."),
            NameTooLong { problem } => text!(ERRCODE_STRING_DATA_RIGHT_TRUNCATION: "{path} is too long a name",
                detail { sentence(&problem) },
                hint "{SHORTEN_OR_DIGEST}"),
            BadCursor => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} is not a cursor of this list",
                hint "Give the cursor of the last row seen, unchanged, or NULL to begin."),
            Null => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} must not be null",
                hint "Give a value."),
            OutOfRange { allowed } => text!(ERRCODE_INVALID_PARAMETER_VALUE: "{path} is out of range",
                detail "Allowed is {allowed}.",
                hint "Give a value in that range."),
        }
    }
}

/// Formats a problem as a sentence.
pub fn sentence(problem: &impl ToString) -> String {
    let text = problem.to_string();
    let mut rest = text.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // The problem may end with the dots of a path.
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", rest.as_str())
}
