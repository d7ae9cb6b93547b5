//! A batch: claims to create and claims to destroy, all or nothing.

use std::borrow::Cow;

use crate::problem::{BadInput, Place, Problem};
use crate::reader;
use crate::token::Tokens;
use crate::types::Types;

/// The thing that must be unique everywhere. Ordered by type, then bytewise by value: the order of all locks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket<'a> {
    pub bucket_type: i32,
    pub value: Cow<'a, str>,
}

/// A subject or a source: a type and an id, kept as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    pub type_id: i32,
    pub id: Cow<'a, str>,
}

/// A claim to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<'a> {
    pub bucket: Bucket<'a>,
    pub subject: Reference<'a>,
    pub source: Reference<'a>,
}

/// A checked batch, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    pub creates: Vec<Claim<'a>>,
    pub destroys: Vec<Bucket<'a>>,
}

impl<'a> Batch<'a> {
    /// Reads and checks both lists: form, then limits, then that no bucket comes twice.
    pub fn read(
        creates: &mut impl Tokens<'a>,
        destroys: &mut impl Tokens<'a>,
        types: &Types,
        max_records: usize,
    ) -> Result<Self, BadInput> {
        let batch = Batch::read_lists(creates, destroys, types, max_records)?;
        if batch.is_empty() {
            return Err(BadInput::new("create_records", Problem::EmptyBatch));
        }
        refuse_duplicates(batch.places())?;
        Ok(batch)
    }

    fn read_lists(
        creates: &mut impl Tokens<'a>,
        destroys: &mut impl Tokens<'a>,
        types: &Types,
        max_records: usize,
    ) -> Result<Self, BadInput> {
        let within = |argument: &'static str, total: usize| {
            let problem = Problem::TooManyRecords { got: total, limit: max_records };
            if total > max_records { Err(BadInput::new(argument, problem)) } else { Ok(()) }
        };
        let creates = reader::list(
            creates,
            &Place::Argument("create_records"),
            |count| within("create_records", count),
            |tokens, place| reader::claim(tokens, place, types),
        )?;
        let destroys = reader::list(
            destroys,
            &Place::Argument("destroy_records"),
            |count| within("destroy_records", creates.len() + count),
            |tokens, place| reader::destroyed_bucket(tokens, place, types),
        )?;
        Ok(Batch { creates, destroys })
    }

    /// All buckets with the place where they stand, in the order of the request.
    fn places(&self) -> impl Iterator<Item = (&Bucket<'a>, &'static str, usize)> {
        let creates = self.creates.iter().enumerate().map(|(at, claim)| (&claim.bucket, "create_records", at));
        let destroys = self.destroys.iter().enumerate().map(|(at, bucket)| (bucket, "destroy_records", at));
        creates.chain(destroys)
    }

    /// How many records the batch has, creates and destroys together.
    pub fn len(&self) -> usize {
        self.creates.len() + self.destroys.len()
    }

    /// Whether there is nothing to do; a batch that was read never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The creates in the order in which they are taken: by bucket.
    pub fn creates_in_lock_order(&self) -> Vec<&Claim<'a>> {
        let mut creates: Vec<_> = self.creates.iter().collect();
        creates.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
        creates
    }

    /// The destroys in the order in which they are taken: by bucket.
    pub fn destroys_in_lock_order(&self) -> Vec<&Bucket<'a>> {
        let mut destroys: Vec<_> = self.destroys.iter().collect();
        destroys.sort_unstable();
        destroys
    }
}

/// Reads the buckets of a stored payload: those it creates, those it destroys.
/// The payload was checked when it was written; what an administrator broke since is an error again.
pub fn stored_buckets<'a>(
    creates: &mut impl Tokens<'a>,
    destroys: &mut impl Tokens<'a>,
    types: &Types,
) -> Result<(Vec<Bucket<'a>>, Vec<Bucket<'a>>), BadInput> {
    let unlimited = |_| Ok(());
    let read = |tokens: &mut dyn Tokens<'a>, place: &Place| reader::destroyed_bucket(tokens, place, types);
    let creates = reader::list(creates, &Place::Argument("payload.create_records"), unlimited, read)?;
    let destroys = reader::list(destroys, &Place::Argument("payload.destroy_records"), unlimited, read)?;
    Ok((creates, destroys))
}

/// Reads an array of buckets, as `get_records` takes it.
pub fn bucket_list<'a>(
    tokens: &mut impl Tokens<'a>,
    argument: &'static str,
    types: &Types,
    max_buckets: usize,
) -> Result<Vec<Bucket<'a>>, BadInput> {
    let within = |count| {
        let problem = Problem::TooMany { what: "buckets", got: count, limit: max_buckets };
        if count > max_buckets { Err(BadInput::new(argument, problem)) } else { Ok(()) }
    };
    reader::list(tokens, &Place::Argument(argument), within, |tokens, place| reader::asked_bucket(tokens, place, types))
}

/// Reads the claims that a range should have, for verification: records as in a batch, no bucket twice.
pub fn expected_records<'a>(
    tokens: &mut impl Tokens<'a>,
    argument: &'static str,
    types: &Types,
    max_records: usize,
) -> Result<Vec<Claim<'a>>, BadInput> {
    let within = |count| {
        let problem = Problem::TooManyRecords { got: count, limit: max_records };
        if count > max_records { Err(BadInput::new(argument, problem)) } else { Ok(()) }
    };
    let claims =
        reader::list(tokens, &Place::Argument(argument), within, |tokens, place| reader::claim(tokens, place, types))?;
    refuse_duplicates(claims.iter().enumerate().map(|(at, claim)| (&claim.bucket, argument, at)))?;
    Ok(claims)
}

/// `places`: buckets with the list and the index where they stand.
fn refuse_duplicates<'b, 'a: 'b>(
    places: impl Iterator<Item = (&'b Bucket<'a>, &'static str, usize)>,
) -> Result<(), BadInput> {
    let mut places: Vec<_> = places.collect();
    // A stable sort: of two equal buckets the one that came first in the request stays first.
    places.sort_by(|a, b| a.0.cmp(b.0));
    let twice = places.windows(2).find(|pair| pair[0].0 == pair[1].0);
    match twice {
        None => Ok(()),
        Some(pair) => {
            let place = |(_, list, at): (&Bucket, &str, usize)| format!("{list}[{at}].bucket");
            Err(BadInput::new(place(pair[1]), Problem::Duplicate { first: place(pair[0]) }))
        }
    }
}
