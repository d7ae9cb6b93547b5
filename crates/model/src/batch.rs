//! A batch: claims to create, claims to destroy and claims to replace, all or nothing.

use std::collections::HashSet;

use crate::claim::{Bucket, Claim, Destroy, Op};
use crate::lookalike::{self, NewLook};
use crate::problem::{BadInput, Place, Problem};
use crate::reader;
use crate::token::Tokens;
use crate::types::Types;

/// Batches that one call may offer to choose from. Which one was chosen is kept in a byte.
pub const MAX_ALTERNATIVES: usize = 100;

/// A checked batch, in the order of the request. A bucket that stands in both lists is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    pub creates: Vec<Claim<'a>>,
    pub destroys: Vec<Destroy<'a>>,
    /// For each create: the bucket stands among the destroys, too.
    replaces: Vec<bool>,
}

impl<'a> Batch<'a> {
    /// Reads and checks both lists: form, then limits, then that no bucket comes twice in one of them.
    pub fn read(
        creates: &mut dyn Tokens<'a>,
        destroys: &mut dyn Tokens<'a>,
        types: &Types,
        max_records: usize,
    ) -> Result<Self, BadInput> {
        let (creates, destroys) = read_lists(creates, destroys, types, max_records)?;
        if creates.is_empty() && destroys.is_empty() {
            return Err(BadInput::new("create_records", Problem::EmptyBatch));
        }
        Batch::of(creates, destroys, ["create_records", "destroy_records"])
    }

    /// Reads batches of which one is to be had: 1 to [`MAX_ALTERNATIVES`], each of the form and within the limits of a batch.
    pub fn read_alternatives(
        tokens: &mut impl Tokens<'a>,
        types: &Types,
        max_records: usize,
    ) -> Result<Vec<Self>, BadInput> {
        let argument = Place::Argument("alternatives");
        let within = |count| {
            let problem = Problem::OutOfRange { allowed: "an array of 1 to 100 batches" };
            if (1..=MAX_ALTERNATIVES).contains(&count) { Ok(()) } else { Err(BadInput::new(argument, problem)) }
        };
        reader::list(tokens, &argument, within, |tokens, place| {
            let (creates, destroys) = reader::batch(tokens, place, types, max_records)?;
            if creates.is_empty() && destroys.is_empty() {
                return Err(BadInput::new(place, Problem::EmptyBatch));
            }
            let lists = ["create_records", "destroy_records"].map(|list| Place::Key(place, list).to_string());
            Batch::of(creates, destroys, [&lists[0], &lists[1]])
        })
    }

    /// Lists that are each in order by themselves, and their names.
    fn of(creates: Vec<Claim<'a>>, destroys: Vec<Destroy<'a>>, lists: [&str; 2]) -> Result<Self, BadInput> {
        refuse_duplicates(lists[0], creates.iter().map(|claim| &claim.bucket))?;
        refuse_duplicates(lists[1], destroys.iter().map(|destroy| &destroy.bucket))?;
        let destroyed = if creates.is_empty() { HashSet::new() } else { destroyed_buckets(&destroys) };
        let replaces = creates.iter().map(|claim| destroyed.contains(&claim.bucket)).collect();
        Ok(Batch { creates, destroys, replaces })
    }

    /// How many records both lists have.
    pub fn records(&self) -> usize {
        self.creates.len() + self.destroys.len()
    }

    /// The looks that the batch needs for its new names.
    pub fn new_looks<'b>(&'b self, types: &Types) -> Vec<NewLook<'b>> {
        lookalike::new_looks(
            self.new_claims().map(|claim| &claim.bucket),
            self.destroys.iter().map(|destroy| &destroy.bucket),
            types,
        )
    }

    /// How many claims the batch takes: a replaced one is one.
    pub fn claims(&self) -> usize {
        self.creates.len() + self.destroys.len() - self.replaces.iter().filter(|replaces| **replaces).count()
    }

    /// The claims that are not there yet, in the order in which they are taken: by bucket.
    pub fn creates_in_lock_order(&self) -> Vec<&Claim<'a>> {
        let mut creates: Vec<_> = self.new_claims().collect();
        creates.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
        creates
    }

    /// The claims that are there, to be destroyed or replaced, in the order in which they are taken: by bucket.
    pub fn destroys_in_lock_order(&self) -> Vec<&Destroy<'a>> {
        let mut destroys: Vec<_> = self.destroys.iter().collect();
        destroys.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
        destroys
    }

    /// The buckets of the batch in the order of the request; a replaced one stands where it is destroyed.
    pub fn buckets(&self) -> impl Iterator<Item = &Bucket<'a>> {
        self.new_claims().map(|claim| &claim.bucket).chain(self.destroys.iter().map(|destroy| &destroy.bucket))
    }

    /// What it would do with each bucket, the new claims first.
    pub fn wishes(&self) -> impl Iterator<Item = (Op, &Bucket<'a>)> {
        let creates = self.new_claims().map(|claim| (Op::Create, &claim.bucket));
        creates.chain(self.destroys.iter().map(|destroy| (Op::Destroy, &destroy.bucket)))
    }

    fn new_claims(&self) -> impl Iterator<Item = &Claim<'a>> {
        self.creates.iter().zip(&self.replaces).filter(|(_, replaces)| !**replaces).map(|(claim, _)| claim)
    }
}

fn read_lists<'a>(
    creates: &mut dyn Tokens<'a>,
    destroys: &mut dyn Tokens<'a>,
    types: &Types,
    max_records: usize,
) -> Result<(Vec<Claim<'a>>, Vec<Destroy<'a>>), BadInput> {
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
        |tokens, place| reader::destroy(tokens, place, types),
    )?;
    Ok((creates, destroys))
}

fn destroyed_buckets<'d, 'a>(destroys: &'d [Destroy<'a>]) -> HashSet<&'d Bucket<'a>> {
    destroys.iter().map(|destroy| &destroy.bucket).collect()
}

/// What an outstanding lease holds, by its payload: claims that it creates, replaces and destroys, each in one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch<'a> {
    pub creates: Vec<Bucket<'a>>,
    pub replaces: Vec<Claim<'a>>,
    pub destroys: Vec<Bucket<'a>>,
}

impl<'a> StoredBatch<'a> {
    /// The payload was checked when it was written; what an administrator broke since is an error again.
    pub fn read(
        creates: &mut impl Tokens<'a>,
        destroys: &mut impl Tokens<'a>,
        types: &Types,
    ) -> Result<Self, BadInput> {
        let (create_place, destroy_place) =
            (Place::Argument("payload.create_records"), Place::Argument("payload.destroy_records"));
        let unlimited = |_| Ok(());
        let bucket = |tokens: &mut dyn Tokens<'a>, place: &Place| reader::bucket_of_record(tokens, place, types);
        let destroys = reader::list(destroys, &destroy_place, unlimited, bucket)?;
        if destroys.is_empty() {
            // Nothing can be replaced: the buckets say it all.
            let creates = reader::list(creates, &create_place, unlimited, bucket)?;
            return Ok(StoredBatch { creates, replaces: Vec::new(), destroys });
        }
        let created = reader::list(creates, &create_place, unlimited, |tokens, place| {
            reader::stored_claim(tokens, place, types)
        })?;
        let destroyed: HashSet<_> = destroys.iter().collect();
        let (replaces, creates): (Vec<_>, Vec<_>) =
            created.into_iter().partition(|claim| destroyed.contains(&claim.bucket));
        let replaced: HashSet<_> = replaces.iter().map(|claim| claim.bucket.clone()).collect();
        Ok(StoredBatch {
            creates: creates.into_iter().map(|claim| claim.bucket).collect(),
            replaces,
            destroys: destroys.into_iter().filter(|bucket| !replaced.contains(bucket)).collect(),
        })
    }

    /// How many claims it holds.
    pub fn claims(&self) -> usize {
        self.creates.len() + self.replaces.len() + self.destroys.len()
    }
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
    refuse_duplicates(argument, claims.iter().map(|claim| &claim.bucket))?;
    Ok(claims)
}

/// The buckets of one list, in its order.
fn refuse_duplicates<'b, 'a: 'b>(list: &str, buckets: impl Iterator<Item = &'b Bucket<'a>>) -> Result<(), BadInput> {
    let mut places: Vec<_> = buckets.enumerate().map(|(at, bucket)| (bucket, at)).collect();
    // Of two equal buckets the one that came first in the request stays first.
    places.sort_unstable();
    let place = |at: usize| format!("{list}[{at}].bucket");
    match places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(BadInput::new(place(pair[1].1), Problem::Duplicate { first: place(pair[0].1) })),
    }
}
