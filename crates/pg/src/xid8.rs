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

argument_of_type!(Xid8, "xid8");

// SAFETY: the SQL type is the one named above.
unsafe impl BoxRet for Xid8 {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum is passed by value.
        unsafe { fcinfo.return_raw_datum(pg_sys::Datum::from(self.0 as usize)) }
    }
}
