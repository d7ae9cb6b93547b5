//! xid8: a transaction id that does not wrap around.

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{FromDatum, IntoDatum};

/// A 64-bit transaction id of some cluster, not necessarily of this one.
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

// SAFETY: the conversions above are those of xid8.
unsafe impl SqlTranslatable for Xid8 {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(Xid8);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("xid8"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("xid8")));
}

// SAFETY: as above.
unsafe impl<'fcx> ArgAbi<'fcx> for Xid8 {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        let index = arg.index();
        // SAFETY: by the caller.
        unsafe { arg.unbox_arg_using_from_datum().unwrap_or_else(|| panic!("argument {index} must not be null")) }
    }
}

// SAFETY: as above.
unsafe impl BoxRet for Xid8 {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum is passed by value.
        unsafe { fcinfo.return_raw_datum(pg_sys::Datum::from(self.0 as usize)) }
    }
}
