//! Arguments of type name.

use std::ffi::CStr;

use pgrx::FromDatum;
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};

/// The name of a role, a column and the like, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub String);

impl FromDatum for Name {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        if is_null {
            return None;
        }
        // SAFETY: the caller promises a name, which ends with a zero and, in a UTF-8 database, is UTF-8.
        let text = unsafe { CStr::from_ptr(datum.cast_mut_ptr::<std::ffi::c_char>()) };
        Some(Name(text.to_string_lossy().into_owned()))
    }
}

// SAFETY: the SQL type is the one that the conversion above expects.
unsafe impl SqlTranslatable for Name {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(Name);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("name"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("name")));
}

// SAFETY: the argument is unboxed by FromDatum, which expects the SQL type named above.
unsafe impl<'fcx> ArgAbi<'fcx> for Name {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        let index = arg.index();
        // SAFETY: the caller promises an argument of this type; pgrx wraps it in Option where NULL is possible.
        unsafe { arg.unbox_arg_using_from_datum().unwrap_or_else(|| panic!("argument {index} must not be null")) }
    }
}
