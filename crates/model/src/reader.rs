//! Reads records off a token stream: a straight walk, one object at a time.

use std::borrow::Cow;

use crate::claim::{Bucket, Claim, Destroy, Reference};
use crate::id;
use crate::problem::{BadInput, Place, Problem};
use crate::token::{Token, Tokens};
use crate::types::{Kind, Types};

const RECORD_KEYS: &str = "bucket, subject, source";
const BUCKET_KEYS: &str = "type, value";
const SUBJECT_KEYS: &str = "type, id";
const SOURCE_KEYS: &str = "type, rails_primary_key_id";

/// The spellings of a source's id.
const SOURCE_ID_KEYS: [&str; 3] = ["rails_primary_key_id", "railsPrimaryKeyId", "id"];

/// Reads the elements of an array argument. `room` says how many records there may still be.
pub fn list<'a, T>(
    tokens: &mut impl Tokens<'a>,
    argument: &Place,
    room: impl FnOnce(usize) -> Result<(), BadInput>,
    mut element: impl FnMut(&mut dyn Tokens<'a>, &Place) -> Result<T, BadInput>,
) -> Result<Vec<T>, BadInput> {
    let count = match tokens.next() {
        Token::BeginArray(count) => count,
        other => return Err(wrong_type(argument, "an array", &other)),
    };
    room(count)?;
    let items =
        (0..count).map(|index| element(tokens, &Place::Index(argument, index))).collect::<Result<Vec<T>, _>>()?;
    tokens.next(); // the end of the array
    Ok(items)
}

/// A record of `create_records`: bucket, subject and source, all of them.
pub fn claim<'a>(tokens: &mut dyn Tokens<'a>, place: &Place, types: &Types) -> Result<Claim<'a>, BadInput> {
    let (mut bucket_part, mut subject_part, mut source_part) = (None, None, None);
    object(tokens, place, |tokens, key, at| {
        match key {
            "bucket" => bucket_part = Some(bucket(tokens, at, types)?),
            "subject" => subject_part = Some(reference(tokens, at, types, Kind::Subject, &["id"], SUBJECT_KEYS)?),
            "source" => source_part = Some(reference(tokens, at, types, Kind::Source, &SOURCE_ID_KEYS, SOURCE_KEYS)?),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: RECORD_KEYS })),
        }
        Ok(())
    })?;
    Ok(Claim {
        bucket: present(bucket_part, place, "bucket")?,
        subject: present(subject_part, place, "subject")?,
        source: present(source_part, place, "source")?,
    })
}

/// A record of `destroy_records`: the bucket, and what it names of subject and source.
pub fn destroy<'a>(tokens: &mut dyn Tokens<'a>, place: &Place, types: &Types) -> Result<Destroy<'a>, BadInput> {
    let (mut bucket_part, mut subject, mut source) = (None, None, None);
    object(tokens, place, |tokens, key, at| {
        match key {
            "bucket" => bucket_part = Some(bucket(tokens, at, types)?),
            "subject" => subject = Some(reference(tokens, at, types, Kind::Subject, &["id"], SUBJECT_KEYS)?),
            "source" => source = Some(reference(tokens, at, types, Kind::Source, &SOURCE_ID_KEYS, SOURCE_KEYS)?),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: RECORD_KEYS })),
        }
        Ok(())
    })?;
    Ok(Destroy { bucket: present(bucket_part, place, "bucket")?, subject, source })
}

/// The bucket of a record that was checked before; subject and source may hold anything.
pub fn bucket_of_record<'a>(tokens: &mut dyn Tokens<'a>, place: &Place, types: &Types) -> Result<Bucket<'a>, BadInput> {
    let mut bucket_part = None;
    object(tokens, place, |tokens, key, at| {
        match key {
            "bucket" => bucket_part = Some(bucket(tokens, at, types)?),
            "subject" | "source" => tokens.skip_value(),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: RECORD_KEYS })),
        }
        Ok(())
    })?;
    present(bucket_part, place, "bucket")
}

/// `{"type": …, "value": …}`.
pub fn bucket<'a>(tokens: &mut dyn Tokens<'a>, place: &Place, types: &Types) -> Result<Bucket<'a>, BadInput> {
    bucket_with(tokens, place, types, id::bucket_value)
}

fn bucket_with<'a>(
    tokens: &mut dyn Tokens<'a>,
    place: &Place,
    types: &Types,
    read_value: fn(Token<'a>, &Place) -> Result<&'a str, BadInput>,
) -> Result<Bucket<'a>, BadInput> {
    let (mut bucket_type, mut value) = (None, None);
    object(tokens, place, |tokens, key, at| {
        match key {
            "type" => bucket_type = Some(id::type_id(tokens.next(), Kind::Bucket, types, at)?),
            "value" => value = Some(read_value(tokens.next(), at)?),
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed: BUCKET_KEYS })),
        }
        Ok(())
    })?;
    Ok(Bucket {
        bucket_type: present(bucket_type, place, "type")?,
        value: Cow::Borrowed(present(value, place, "value")?),
    })
}

/// A bucket that is only asked for: whatever its value, also one that no claim can have, the answer is what stands there.
pub fn asked_bucket<'a>(tokens: &mut dyn Tokens<'a>, place: &Place, types: &Types) -> Result<Bucket<'a>, BadInput> {
    bucket_with(tokens, place, types, id::any_text)
}

/// A subject or a source: a type and an id, which may have several spellings.
fn reference<'a>(
    tokens: &mut dyn Tokens<'a>,
    place: &Place,
    types: &Types,
    kind: Kind,
    id_keys: &[&'static str],
    allowed: &'static str,
) -> Result<Reference<'a>, BadInput> {
    let mut type_id = None;
    let mut found: Option<(String, Cow<'a, str>)> = None;
    object(tokens, place, |tokens, key, at| {
        match key {
            "type" => type_id = Some(id::type_id(tokens.next(), kind, types, at)?),
            _ if id_keys.contains(&key) => {
                if let Some((first, _)) = &found {
                    return Err(BadInput::new(at, Problem::TwoSpellings { first: first.clone() }));
                }
                found = Some((key.to_owned(), id::record_id(tokens.next(), at)?));
            }
            _ => return Err(BadInput::new(at, Problem::UnknownKey { allowed })),
        }
        Ok(())
    })?;
    Ok(Reference {
        type_id: present(type_id, place, "type")?,
        id: present(found.map(|(_, id)| id), place, id_keys[0])?,
    })
}

/// Walks the fields of one object.
fn object<'a>(
    tokens: &mut dyn Tokens<'a>,
    place: &Place,
    mut field: impl FnMut(&mut dyn Tokens<'a>, &'a str, &Place) -> Result<(), BadInput>,
) -> Result<(), BadInput> {
    match tokens.next() {
        Token::BeginObject => {}
        other => return Err(wrong_type(place, "an object", &other)),
    }
    while let Token::Key(key) = tokens.next() {
        field(tokens, key, &Place::Key(place, key))?;
    }
    Ok(())
}

fn present<T>(value: Option<T>, place: &Place, key: &str) -> Result<T, BadInput> {
    value.ok_or_else(|| BadInput::new(Place::Key(place, key), Problem::Missing))
}

fn wrong_type(place: &Place, wanted: &'static str, got: &Token) -> BadInput {
    BadInput::new(place, Problem::WrongType { wanted, got: got.type_name() })
}
