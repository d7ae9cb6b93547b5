//! xid8: a transaction id that does not wrap around.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::{FromDatum, IntoDatum, pg_sys};

use super::sql_type::argument_of_type;

/// A 64-bit transaction id of any cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xid8(pub u64);

impl FromDatum for Xid8 {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        // xid8 is passed by value.
        if is_null { None } else { Some(Xid8(datum.value() as u64)) }
    }
}

impl IntoDatum for Xid8 {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(pg_sys::Datum::from(self.0 as usize))
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::XID8OID
    }
}

/// A snapshot of the transactions that had ended, in the text of `pg_snapshot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionSnapshot {
    /// The first transaction that had not begun.
    pub next: Xid8,
    /// The transactions that were open.
    pub open: Vec<Xid8>,
}

impl TransactionSnapshot {
    /// Returns the text of the active snapshot.
    pub fn active_text() -> String {
        // SAFETY: reads the active snapshot, and raises an error if there is none. The text is copied at once.
        unsafe {
            let snapshot: Option<pg_sys::Datum> = pgrx::direct_function_call(pg_sys::pg_current_snapshot, &[]);
            let text: Option<&std::ffi::CStr> = pgrx::direct_function_call(pg_sys::pg_snapshot_out, &[snapshot]);
            text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
        }
    }

    /// Reads `xmin:xmax:xip,xip`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').skip(1);
        let next = Xid8(parts.next()?.parse().ok()?);
        let open = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        Some(TransactionSnapshot { next, open: open.map(|xid| xid.parse().ok().map(Xid8)).collect::<Option<_>>()? })
    }

    /// Returns whether a transaction had ended.
    pub fn shows(&self, xid: Xid8) -> bool {
        xid < self.next && !self.open.contains(&xid)
    }
}

argument_of_type!(Xid8, "xid8");

// SAFETY: the SQL type is the one named above.
unsafe impl BoxRet for Xid8 {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum is passed by value.
        unsafe { fcinfo.return_raw_datum(pg_sys::Datum::from(self.0 as usize)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_snapshots() {
        let snapshot = TransactionSnapshot::parse("10:20:10,15").unwrap();
        assert_eq!((snapshot.next, &*snapshot.open), (Xid8(20), &[Xid8(10), Xid8(15)][..]));
        assert_eq!(
            [9, 10, 11, 15, 19, 20].map(|xid| snapshot.shows(Xid8(xid))),
            [true, false, true, false, true, false]
        );
        assert_eq!(TransactionSnapshot::parse("10:10:").unwrap().open, []);
        assert!(["", "10", "10:x:", "10:20:x"].iter().all(|text| TransactionSnapshot::parse(text).is_none()));
    }
}
