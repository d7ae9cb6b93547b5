//! Reads records from a token stream, in one pass.

use std::borrow::Cow;

use claims_names::Profile;

use crate::claim::{Bucket, Claim, Destroy, Reference};
use crate::problem::{BadInput, JsonPath, Problem};
use crate::types::{Kind, Types};
use crate::{id, limits};
use claims_json::{Token, Tokens};

const BATCH_KEYS: &str = "create_records, destroy_records";
const RECORD_KEYS: &str = "bucket, subject, source";
const BUCKET_KEYS: &str = "type, value";
const STORED_BUCKET_KEYS: &str = "type, value, display_value";
const SUBJECT_KEYS: &str = "type, id";
const SUBJECTS_KEYS: &str = "type, ids";
const SOURCE_KEYS: &str = "type, rails_primary_key_id";

/// The spellings of the key of a source id.
const SOURCE_ID_KEYS: [&str; 3] = ["rails_primary_key_id", "railsPrimaryKeyId", "id"];

/// Reads the elements of an array argument. `check_count` refuses too many elements before any is read.
pub fn list<'a, T>(
    tokens: &mut dyn Tokens<'a>,
    argument: &JsonPath,
    check_count: impl FnOnce(usize) -> Result<(), BadInput>,
    mut element: impl FnMut(&mut dyn Tokens<'a>, &JsonPath) -> Result<T, BadInput>,
) -> Result<Vec<T>, BadInput> {
    let count = match tokens.next() {
        Token::BeginArray(count) => count,
        other => return Err(wrong_type(argument, "an array", &other)),
    };
    check_count(count)?;
    let items =
        (0..count).map(|index| element(tokens, &JsonPath::Index(argument, index))).collect::<Result<Vec<T>, _>>()?;
    tokens.next();
    Ok(items)
}

/// Reads `{"create_records": […], "destroy_records": […]}`. A missing list is empty.
pub fn batch<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
    max_records: usize,
) -> Result<(Vec<Claim<'a>>, Vec<Destroy<'a>>), BadInput> {
    let (mut creates, mut destroys) = (Vec::new(), Vec::new());
    object(tokens, path, |tokens, key, at| {
        let within = |others: usize| {
            move |count| {
                let problem = Problem::TooManyRecords { got: others + count, limit: max_records };
                if others + count > max_records { Err(BadInput::new(at, problem)) } else { Ok(()) }
            }
        };
        match key {
            "create_records" => {
                creates = list(tokens, at, within(destroys.len()), |tokens, path| claim(tokens, path, types))?;
            }
            "destroy_records" => {
                destroys = list(tokens, at, within(creates.len()), |tokens, path| destroy(tokens, path, types))?;
            }
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: BATCH_KEYS })),
        }
        Ok(())
    })?;
    Ok((creates, destroys))
}

/// Reads a record of `create_records`, which must have bucket, subject and source.
pub fn claim<'a>(tokens: &mut dyn Tokens<'a>, path: &JsonPath, types: &Types) -> Result<Claim<'a>, BadInput> {
    claim_with(tokens, path, types, Form::Claimed)
}

/// Reads a record of a payload, which was checked when it was stored, and has canonical forms.
pub fn stored_claim<'a>(tokens: &mut dyn Tokens<'a>, path: &JsonPath, types: &Types) -> Result<Claim<'a>, BadInput> {
    claim_with(tokens, path, types, Form::Stored)
}

fn claim_with<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
    form: Form,
) -> Result<Claim<'a>, BadInput> {
    let (mut bucket_part, mut subject_part, mut source_part) = (None, None, None);
    object(tokens, path, |tokens, key, at| {
        match key {
            "bucket" => bucket_part = Some(named_bucket(tokens, at, types, form)?),
            "subject" => subject_part = Some(reference(tokens, at, types, Kind::Subject, &["id"], SUBJECT_KEYS)?),
            "source" => source_part = Some(reference(tokens, at, types, Kind::Source, &SOURCE_ID_KEYS, SOURCE_KEYS)?),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: RECORD_KEYS })),
        }
        Ok(())
    })?;
    let (bucket, display) = present(bucket_part, path, "bucket")?;
    Ok(Claim {
        bucket,
        display,
        subject: present(subject_part, path, "subject")?,
        source: present(source_part, path, "source")?,
    })
}

/// Reads a record of `destroy_records`, which must have a bucket, and may have a subject and a source.
pub fn destroy<'a>(tokens: &mut dyn Tokens<'a>, path: &JsonPath, types: &Types) -> Result<Destroy<'a>, BadInput> {
    let (mut bucket_part, mut subject, mut source) = (None, None, None);
    object(tokens, path, |tokens, key, at| {
        match key {
            "bucket" => bucket_part = Some(bucket(tokens, at, types)?),
            "subject" => subject = Some(reference(tokens, at, types, Kind::Subject, &["id"], SUBJECT_KEYS)?),
            "source" => source = Some(reference(tokens, at, types, Kind::Source, &SOURCE_ID_KEYS, SOURCE_KEYS)?),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: RECORD_KEYS })),
        }
        Ok(())
    })?;
    Ok(Destroy { bucket: present(bucket_part, path, "bucket")?, subject, source })
}

/// Reads the bucket of a stored record, and skips subject and source.
pub fn bucket_of_record<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
) -> Result<Bucket<'a>, BadInput> {
    let mut bucket_part = None;
    object(tokens, path, |tokens, key, at| {
        match key {
            "bucket" => bucket_part = Some(named_bucket(tokens, at, types, Form::Stored)?.0),
            "subject" | "source" => tokens.skip_value(),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: RECORD_KEYS })),
        }
        Ok(())
    })?;
    present(bucket_part, path, "bucket")
}

/// Reads `{"type": …, "value": …}`.
pub fn bucket<'a>(tokens: &mut dyn Tokens<'a>, path: &JsonPath, types: &Types) -> Result<Bucket<'a>, BadInput> {
    named_bucket(tokens, path, types, Form::Claimed).map(|(bucket, _)| bucket)
}

/// Reads a bucket of a look-up. Its value may be too long for a claim: then no claim has it.
pub fn looked_up_bucket<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
) -> Result<Bucket<'a>, BadInput> {
    named_bucket(tokens, path, types, Form::LookedUp).map(|(bucket, _)| bucket)
}

/// The form in which a name is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Any spelling, in a claim to create or destroy.
    Claimed,
    /// Any spelling, in a look-up.
    LookedUp,
    /// Canonical, perhaps with the name as the caller wrote it in `display_value`.
    Stored,
}

/// Reads a bucket. Returns its canonical form, and the name as the caller wrote it if that is different.
fn named_bucket<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
    form: Form,
) -> Result<(Bucket<'a>, Option<Cow<'a, str>>), BadInput> {
    let (mut bucket_type, mut value, mut display) = (None, None, None);
    object(tokens, path, |tokens, key, at| {
        match key {
            "type" => bucket_type = Some(id::type_id(tokens.next(), Kind::Bucket, types, at)?),
            "value" if form == Form::Claimed => value = Some(id::bucket_value(tokens.next(), at)?),
            "value" => value = Some(id::any_text(tokens.next(), at)?),
            "display_value" if form == Form::Stored => {
                display = Some(Cow::Borrowed(id::any_text(tokens.next(), at)?));
            }
            _ => {
                let allowed = if form == Form::Stored { STORED_BUCKET_KEYS } else { BUCKET_KEYS };
                return Err(BadInput::new(at, Problem::UnknownKey { allowed }));
            }
        }
        Ok(())
    })?;
    let bucket_type = present(bucket_type, path, "type")?;
    let value = present(value, path, "value")?;
    let canonical = match form {
        Form::Stored => return Ok((Bucket { bucket_type, value: Cow::Borrowed(value) }, display)),
        Form::LookedUp => types.canonical_for_lookup(bucket_type, value),
        Form::Claimed => match types.naming(bucket_type).profile {
            // The name is its own canonical form. Its characters were counted where it was read, its bytes are not.
            Profile::Exact => {
                let excess = limits::bucket_value_excess(value);
                excess.map_or(Ok(()), |problem| Err(BadInput::new(JsonPath::Key(path, "value"), problem)))?;
                Ok(Cow::Borrowed(value))
            }
            profile => profile.canonical(value),
        },
    };
    let canonical = canonical.map_err(|problem| BadInput::new(JsonPath::Key(path, "value"), Problem::name(problem)))?;
    let display = (*canonical != *value).then_some(Cow::Borrowed(value));
    Ok((Bucket { bucket_type, value: canonical }, display))
}

/// Reads a subject or a source. Its id may have several keys, one of which must be there.
fn reference<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
    kind: Kind,
    id_keys: &[&'static str],
    allowed: &'static str,
) -> Result<Reference<'a>, BadInput> {
    let mut type_id = None;
    let mut found: Option<(&'a str, Cow<'a, str>)> = None;
    object(tokens, path, |tokens, key, at| {
        match key {
            "type" => type_id = Some(id::type_id(tokens.next(), kind, types, at)?),
            _ if id_keys.contains(&key) => {
                if let Some((first, _)) = &found {
                    return Err(BadInput::new(at, Problem::TwoSpellings { first: (*first).to_owned() }));
                }
                found = Some((key, id::record_id(tokens.next(), at)?));
            }
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed })),
        }
        Ok(())
    })?;
    Ok(Reference { type_id: present(type_id, path, "type")?, id: present(found.map(|(_, id)| id), path, id_keys[0])? })
}

/// Reads `{"type": …, "ids": […]}`: subjects of one type.
pub fn subjects<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    types: &Types,
) -> Result<(i32, Vec<Cow<'a, str>>), BadInput> {
    let (mut type_id, mut ids) = (None, None);
    object(tokens, path, |tokens, key, at| {
        match key {
            "type" => type_id = Some(id::type_id(tokens.next(), Kind::Subject, types, at)?),
            "ids" => ids = Some(list(tokens, at, |_| Ok(()), |tokens, path| id::record_id(tokens.next(), path))?),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: SUBJECTS_KEYS })),
        }
        Ok(())
    })?;
    Ok((present(type_id, path, "type")?, present(ids, path, "ids")?))
}

/// Calls `field` for each field of an object.
fn object<'a>(
    tokens: &mut dyn Tokens<'a>,
    path: &JsonPath,
    mut field: impl FnMut(&mut dyn Tokens<'a>, &'a str, &JsonPath) -> Result<(), BadInput>,
) -> Result<(), BadInput> {
    match tokens.next() {
        Token::BeginObject => {}
        other => return Err(wrong_type(path, "an object", &other)),
    }
    while let Token::Key(key) = tokens.next() {
        field(tokens, key, &JsonPath::Key(path, key))?;
    }
    Ok(())
}

fn present<T>(value: Option<T>, path: &JsonPath, key: &str) -> Result<T, BadInput> {
    value.ok_or_else(|| BadInput::new(JsonPath::Key(path, key), Problem::Missing))
}

fn wrong_type(path: &JsonPath, wanted: &'static str, got: &Token) -> BadInput {
    BadInput::new(path, Problem::WrongType { wanted, got: got.type_name() })
}
