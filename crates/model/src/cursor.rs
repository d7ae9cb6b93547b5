//! Cursors: positions at which a list continues. Callers treat them as opaque; the functions check those that come
//! back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits;
use crate::problem::Problem;

/// A cursor of `list_leases`, which continues after this lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseCursor {
    /// Microseconds of PostgreSQL's epoch.
    pub created_at: i64,
    pub lease_uuid: Uuid,
}

/// A cursor of `list_records`, which continues after this claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimCursor {
    pub source_type: i32,
    pub source_id: String,
    pub bucket_type: i32,
    pub bucket_value: String,
}

/// Where a transfer that reads claims by their subjects continues: after this claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectCursor {
    pub subject_type: i32,
    pub subject_id: String,
    pub bucket_type: i32,
    pub bucket_value: String,
}

/// A cursor of `list_discrepancies`, which continues after this discrepancy. `above` is the start of the range of
/// source ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscrepancyCursor {
    pub above: Option<String>,
    pub place: DiscrepancyPlace,
}

/// The sort key of a discrepancy: by source id, in the order of ranges, then by its contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiscrepancyPlace {
    /// `None` for rows without a key, which come first.
    pub source_length: Option<u64>,
    pub source_id: String,
    pub bucket_type: String,
    pub bucket_value: String,
    pub discrepancy: String,
    /// The number of the discrepancy among those with equal keys.
    pub nth: u32,
}

/// A cursor of `subject_history`, which continues before this event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCursor {
    /// Microseconds of PostgreSQL's epoch.
    pub at: i64,
    pub event: HistoryEvent,
}

/// An event of a history at its moment. Claims that exist come before changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryEvent {
    Claim { bucket_type: i32, bucket_value: String },
    Change { id: i64, nth: i64 },
}

/// A cursor that can be written as text and parsed.
pub trait Cursor: Serialize + DeserializeOwned {
    /// The letter that distinguishes the cursors of different lists.
    const TAG: char;

    fn encode(&self) -> String {
        // Serializing numbers and strings into memory cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{}{}", Self::TAG, URL_SAFE_NO_PAD.encode(json))
    }

    fn decode(text: &str) -> Result<Self, Problem> {
        Self::parse(text).ok_or(Problem::BadCursor)
    }

    #[doc(hidden)]
    fn parse(text: &str) -> Option<Self> {
        let body = text.strip_prefix(Self::TAG).filter(|body| body.len() <= limits::CURSOR_BYTES)?;
        let json = URL_SAFE_NO_PAD.decode(body).ok()?;
        serde_json::from_slice::<Self>(&json).ok().filter(Self::is_sound)
    }

    /// Returns whether a list can have produced every value.
    fn is_sound(&self) -> bool;
}

impl Cursor for LeaseCursor {
    const TAG: char = 'l';

    fn is_sound(&self) -> bool {
        is_time(self.created_at)
    }
}

impl Cursor for HistoryCursor {
    const TAG: char = 'h';

    fn is_sound(&self) -> bool {
        is_time(self.at)
            && match &self.event {
                HistoryEvent::Claim { bucket_value, .. } => is_text(bucket_value, limits::BUCKET_VALUE_CHARS),
                HistoryEvent::Change { .. } => true,
            }
    }
}

/// Returns whether a timestamptz can have this value: 4714 BC to 294276 AD.
fn is_time(microseconds: i64) -> bool {
    (-211_813_488_000_000_000..9_223_371_331_200_000_000).contains(&microseconds)
}

impl Cursor for ClaimCursor {
    const TAG: char = 'r';

    fn is_sound(&self) -> bool {
        is_text(&self.source_id, limits::ID_CHARS) && is_text(&self.bucket_value, limits::BUCKET_VALUE_CHARS)
    }
}

impl Cursor for SubjectCursor {
    const TAG: char = 's';

    fn is_sound(&self) -> bool {
        is_text(&self.subject_id, limits::ID_CHARS) && is_text(&self.bucket_value, limits::BUCKET_VALUE_CHARS)
    }
}

/// Returns whether a column of at most `limit` characters can have this value.
fn is_text(text: &str, limit: usize) -> bool {
    !text.contains('\0') && !limits::is_longer_than(text, limit)
}

impl Cursor for DiscrepancyCursor {
    const TAG: char = 'd';

    fn is_sound(&self) -> bool {
        self.above.as_deref().is_none_or(|above| !above.is_empty() && is_text(above, limits::ID_CHARS))
            && is_text(&self.place.source_id, limits::ID_CHARS)
            && is_text(&self.place.bucket_value, limits::BUCKET_VALUE_CHARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cursors_round_trip(source_type: i32, source_id in "[^\\x00]{0,128}", bucket_type: i32, bucket_value in "[^\\x00]{0,1024}") {
            let cursor = ClaimCursor { source_type, source_id, bucket_type, bucket_value };
            prop_assert_eq!(ClaimCursor::decode(&cursor.encode()), Ok(cursor));
        }

        #[test]
        fn anything_else_is_refused(text in ".{0,64}") {
            prop_assert!(LeaseCursor::decode(&text).is_err());
            prop_assert!(ClaimCursor::decode(&text).is_err());
            prop_assert!(DiscrepancyCursor::decode(&text).is_err());
        }
    }

    #[test]
    fn one_list_does_not_take_the_cursor_of_another() {
        let cursor = LeaseCursor { created_at: 1, lease_uuid: Uuid::nil() };
        assert_eq!(ClaimCursor::decode(&cursor.encode()), Err(Problem::BadCursor));
    }

    #[test]
    fn unsound_values_are_refused() {
        let cursor = ClaimCursor { source_type: 1, source_id: "a\0".into(), bucket_type: 1, bucket_value: "x".into() };
        assert_eq!(ClaimCursor::decode(&cursor.encode()), Err(Problem::BadCursor));
        let place = DiscrepancyPlace {
            source_length: Some(1),
            source_id: "1".into(),
            bucket_type: "ROUTES".into(),
            bucket_value: "x".into(),
            discrepancy: "extra".into(),
            nth: 0,
        };
        let sound = DiscrepancyCursor { above: None, place };
        assert_eq!(DiscrepancyCursor::decode(&sound.encode()), Ok(sound.clone()));
        let unbounded = DiscrepancyCursor { above: Some(String::new()), ..sound };
        assert_eq!(DiscrepancyCursor::decode(&unbounded.encode()), Err(Problem::BadCursor));
        let late = LeaseCursor { created_at: i64::MAX, lease_uuid: Uuid::nil() };
        assert_eq!(LeaseCursor::decode(&late.encode()), Err(Problem::BadCursor));
    }
}
