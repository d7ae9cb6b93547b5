//! A batch: claims to create, claims to destroy and claims to replace, all or nothing.

use std::collections::{HashMap, HashSet};

use crate::claim::{Bucket, Claim, Destroy, Op};
use crate::lookalike::{self, NewSkeleton};
use crate::problem::{BadInput, JsonPath, Problem};
use crate::reader;
use crate::types::Types;
use claims_json::Tokens;

/// The largest number of alternatives in one call of `begin_first`. The index of the chosen one is stored in a byte.
pub const MAX_ALTERNATIVES: usize = 100;

/// The lists of a batch.
const LISTS: [JsonPath; 2] = [JsonPath::Argument("create_records"), JsonPath::Argument("destroy_records")];

/// A checked batch, in the order of the request. A bucket in both lists is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    pub creates: Vec<Claim<'a>>,
    pub destroys: Vec<Destroy<'a>>,
    /// For each create, whether its bucket is also among the destroys.
    replaces: Vec<bool>,
}

impl<'a> Batch<'a> {
    /// Reads both lists. It checks the form first, then the limits, then that no list names a bucket twice.
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
        Batch::of(creates, destroys, LISTS)
    }

    /// Reads the alternatives of `begin_first`: 1 to [`MAX_ALTERNATIVES`] batches, each with the form and limits of a
    /// batch.
    pub fn read_alternatives(
        tokens: &mut impl Tokens<'a>,
        types: &Types,
        max_records: usize,
    ) -> Result<Vec<Self>, BadInput> {
        let argument = JsonPath::Argument("alternatives");
        let within = |count| {
            let problem = Problem::OutOfRange { allowed: "an array of 1 to 100 batches" };
            if (1..=MAX_ALTERNATIVES).contains(&count) { Ok(()) } else { Err(BadInput::new(argument, problem)) }
        };
        reader::list(tokens, &argument, within, |tokens, path| {
            let (creates, destroys) = reader::batch(tokens, path, types, max_records)?;
            if creates.is_empty() && destroys.is_empty() {
                return Err(BadInput::new(path, Problem::EmptyBatch));
            }
            Batch::of(creates, destroys, ["create_records", "destroy_records"].map(|list| JsonPath::Key(path, list)))
        })
    }

    /// Builds a batch of claims and destroys that were not read from JSON. No list may name a bucket twice.
    pub fn of_lists(creates: Vec<Claim<'a>>, destroys: Vec<Destroy<'a>>) -> Result<Self, BadInput> {
        Batch::of(creates, destroys, LISTS)
    }

    /// Builds a batch of two lists that passed their own checks. `lists` has their names for messages.
    fn of(creates: Vec<Claim<'a>>, destroys: Vec<Destroy<'a>>, lists: [JsonPath; 2]) -> Result<Self, BadInput> {
        refuse_duplicates(&lists[0], creates.iter().map(|claim| &claim.bucket))?;
        refuse_duplicates(&lists[1], destroys.iter().map(|destroy| &destroy.bucket))?;
        let destroyed = if creates.is_empty() { HashSet::new() } else { destroyed_buckets(&destroys) };
        let replaces = creates.iter().map(|claim| destroyed.contains(&claim.bucket)).collect();
        Ok(Batch { creates, destroys, replaces })
    }

    /// Returns the number of records in both lists.
    pub fn records(&self) -> usize {
        self.creates.len() + self.destroys.len()
    }

    /// Returns the skeletons that the new names of the batch need.
    pub fn new_skeletons<'b>(&'b self, types: &Types) -> Vec<NewSkeleton<'b>> {
        lookalike::new_skeletons(
            self.new_claims().map(|claim| &claim.bucket),
            self.destroys.iter().map(|destroy| &destroy.bucket),
            types,
        )
    }

    /// Returns the number of claims that the batch takes. A replaced claim counts once.
    pub fn claims(&self) -> usize {
        self.creates.len() + self.destroys.len() - self.replaces.iter().filter(|replaces| **replaces).count()
    }

    /// Returns the new claims in lock order, which is the order of the buckets.
    pub fn creates_in_lock_order(&self) -> Vec<&Claim<'a>> {
        let mut creates: Vec<_> = self.new_claims().collect();
        creates.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
        creates
    }

    /// Returns the claims to destroy or to replace, in lock order, which is the order of the buckets.
    pub fn destroys_in_lock_order(&self) -> Vec<&Destroy<'a>> {
        let mut destroys: Vec<_> = self.destroys.iter().collect();
        destroys.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
        destroys
    }

    /// Returns the existing claims that the batch changes, in lock order, each with the claim that replaces it.
    pub fn changes_in_lock_order(&self) -> Vec<(&Destroy<'a>, Option<&Claim<'a>>)> {
        let replacing = self.creates.iter().zip(&self.replaces).filter(|(_, replaces)| **replaces);
        let replacing: HashMap<_, _> = replacing.map(|(claim, _)| (&claim.bucket, claim)).collect();
        let destroys = self.destroys_in_lock_order().into_iter();
        destroys.map(|destroy| (destroy, replacing.get(&destroy.bucket).copied())).collect()
    }

    /// Returns the buckets of the batch in the order of the request. A replaced bucket stands among the destroys.
    pub fn buckets(&self) -> impl Iterator<Item = &Bucket<'a>> {
        self.new_claims().map(|claim| &claim.bucket).chain(self.destroys.iter().map(|destroy| &destroy.bucket))
    }

    /// Returns the operation of the batch on each bucket, the new claims first.
    pub fn operations(&self) -> impl Iterator<Item = (Op, &Bucket<'a>)> {
        let creates = self.new_claims().map(|claim| (Op::Create, &claim.bucket));
        creates.chain(self.destroys.iter().map(|destroy| (Op::Destroy, &destroy.bucket)))
    }

    /// Returns the creates that replace no claim.
    pub fn new_claims(&self) -> impl Iterator<Item = &Claim<'a>> {
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
        &JsonPath::Argument("create_records"),
        |count| within("create_records", count),
        |tokens, path| reader::claim(tokens, path, types),
    )?;
    let destroys = reader::list(
        destroys,
        &JsonPath::Argument("destroy_records"),
        |count| within("destroy_records", creates.len() + count),
        |tokens, path| reader::destroy(tokens, path, types),
    )?;
    Ok((creates, destroys))
}

fn destroyed_buckets<'d, 'a>(destroys: &'d [Destroy<'a>]) -> HashSet<&'d Bucket<'a>> {
    destroys.iter().map(|destroy| &destroy.bucket).collect()
}

/// The batch of an outstanding lease, as its payload has it. Each claim is in one of the three lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch<'a> {
    pub creates: Vec<Bucket<'a>>,
    pub replaces: Vec<Claim<'a>>,
    pub destroys: Vec<Bucket<'a>>,
}

impl<'a> StoredBatch<'a> {
    /// Reads a payload. The payload was checked when it was written, so an error means that somebody changed it by
    /// hand.
    pub fn read(
        creates: &mut impl Tokens<'a>,
        destroys: &mut impl Tokens<'a>,
        types: &Types,
    ) -> Result<Self, BadInput> {
        let (creates_path, destroys_path) =
            (JsonPath::Argument("payload.create_records"), JsonPath::Argument("payload.destroy_records"));
        let unlimited = |_| Ok(());
        let bucket = |tokens: &mut dyn Tokens<'a>, path: &JsonPath| reader::bucket_of_record(tokens, path, types);
        let destroys = reader::list(destroys, &destroys_path, unlimited, bucket)?;
        if destroys.is_empty() {
            // Without destroys no claim is replaced, so the buckets are enough.
            let creates = reader::list(creates, &creates_path, unlimited, bucket)?;
            return Ok(StoredBatch { creates, replaces: Vec::new(), destroys });
        }
        let created =
            reader::list(creates, &creates_path, unlimited, |tokens, path| reader::stored_claim(tokens, path, types))?;
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

    /// Reads the claims that a payload creates or gives to replaced ones. Only names that were kept back need more than their buckets.
    pub fn created_claims(creates: &mut impl Tokens<'a>, types: &Types) -> Result<Vec<Claim<'a>>, BadInput> {
        let path = JsonPath::Argument("payload.create_records");
        reader::list(creates, &path, |_| Ok(()), |tokens, path| reader::stored_claim(tokens, path, types))
    }

    /// Returns the same batch, as the payload of its lease would have it.
    pub fn of(batch: &Batch<'a>) -> Self {
        let destroys = batch.changes_in_lock_order();
        StoredBatch {
            creates: batch.new_claims().map(|claim| claim.bucket.clone()).collect(),
            replaces: destroys.iter().filter_map(|(_, claim)| claim.cloned()).collect(),
            destroys: destroys
                .iter()
                .filter(|(_, claim)| claim.is_none())
                .map(|(destroy, _)| destroy.bucket.clone())
                .collect(),
        }
    }

    /// Returns the number of claims that the lease holds.
    pub fn claims(&self) -> usize {
        self.creates.len() + self.replaces.len() + self.destroys.len()
    }
}

/// Reads an array of buckets, the argument of `get_records`.
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
    reader::list(tokens, &JsonPath::Argument(argument), within, |tokens, path| {
        reader::looked_up_bucket(tokens, path, types)
    })
}

/// Reads the claims that verification expects in a range: records like those of a batch, no bucket twice.
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
        reader::list(tokens, &JsonPath::Argument(argument), within, |tokens, path| reader::claim(tokens, path, types))?;
    refuse_duplicates(&JsonPath::Argument(argument), claims.iter().map(|claim| &claim.bucket))?;
    Ok(claims)
}

/// Refuses a list that names a bucket twice.
fn refuse_duplicates<'b, 'a: 'b>(
    list: &JsonPath,
    buckets: impl ExactSizeIterator<Item = &'b Bucket<'a>>,
) -> Result<(), BadInput> {
    if buckets.len() < 2 {
        return Ok(());
    }
    let mut positions: Vec<_> = buckets.enumerate().map(|(at, bucket)| (bucket, at)).collect();
    // Among equal buckets the sort preserves the order of the request.
    positions.sort_unstable();
    let path = |at: usize| format!("{list}[{at}].bucket");
    match positions.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(BadInput::new(path(pair[1].1), Problem::Duplicate { first: path(pair[0].1) })),
    }
}
