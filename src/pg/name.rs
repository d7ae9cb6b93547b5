//! Arguments of types name and regclass.

use std::ffi::CStr;

use pgrx::FromDatum;
use pgrx::pg_sys;

use super::sql_type::argument_of_type;

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

/// A relation that was named, or of which only the oid was given: there need not be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation(pub pg_sys::Oid);

impl FromDatum for Relation {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, kind: pg_sys::Oid) -> Option<Self> {
        // SAFETY: a regclass is an oid.
        unsafe { pg_sys::Oid::from_polymorphic_datum(datum, is_null, kind).map(Relation) }
    }
}

argument_of_type!(Name, "name");
argument_of_type!(Relation, "regclass");
