//! Values of types name and regclass.

use std::ffi::CStr;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::{FromDatum, IntoDatum, pg_sys};

use super::sql_type::argument_of_type;

/// A value of type name, such as the name of a role or a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub String);

/// The length of a name as it is stored (NAMEDATALEN).
const SIZE: usize = pg_sys::NAMEDATALEN as usize;

impl Name {
    /// Returns the name as it is stored: cut if it is too long, and filled up with zeros.
    pub(super) fn bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let end = self.0.floor_char_boundary(SIZE - 1);
        bytes[..end].copy_from_slice(&self.0.as_bytes()[..end]);
        bytes
    }
}

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

impl IntoDatum for Name {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let text = std::ffi::CString::new(self.0).ok()?;
        // SAFETY: namein takes one cstring, and cuts what is too long.
        unsafe { pgrx::direct_function_call_as_datum(pg_sys::namein, &[Some(text.as_ptr().into())]) }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::NAMEOID
    }
}

// SAFETY: the datum is a name, made in the memory of the call.
unsafe impl BoxRet for Name {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum is a name, made in the memory of the call.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

/// A value of type regclass. There may be no relation with this oid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relation(pub pg_sys::Oid);

impl FromDatum for Relation {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, kind: pg_sys::Oid) -> Option<Self> {
        // SAFETY: a regclass is an oid.
        unsafe { pg_sys::Oid::from_polymorphic_datum(datum, is_null, kind).map(Relation) }
    }
}

impl IntoDatum for Relation {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        self.0.into_datum()
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::REGCLASSOID
    }
}

// SAFETY: the datum is a regclass, which is an oid.
unsafe impl BoxRet for Relation {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum is an oid.
        unsafe { fcinfo.return_raw_datum(pg_sys::Datum::from(self.0)) }
    }
}

argument_of_type!(Name, "name");
argument_of_type!(Relation, "regclass");
