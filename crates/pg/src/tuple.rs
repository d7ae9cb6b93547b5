//! The columns of a tuple descriptor.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Returns a column's description; columns are counted from 1.
///
/// # Safety
/// The descriptor has that column, and outlives the description.
pub(super) unsafe fn attribute<'d>(descriptor: pg_sys::TupleDesc, column: usize) -> &'d pg_sys::FormData_pg_attribute {
    let at = column - 1;
    // SAFETY: guaranteed by the caller. Since PostgreSQL 18 the descriptions no longer have a field of their own.
    #[cfg(not(feature = "pg18"))]
    return unsafe { &*(*descriptor).attrs.as_ptr().add(at) };
    #[cfg(feature = "pg18")]
    return unsafe { &*pg_sys::TupleDescAttr(descriptor, at as std::ffi::c_int) };
}

/// Returns the number of columns, including dropped ones.
///
/// # Safety
/// The descriptor is valid.
pub(super) unsafe fn width(descriptor: pg_sys::TupleDesc) -> usize {
    // SAFETY: guaranteed by the caller.
    usize::try_from(unsafe { (*descriptor).natts }).unwrap_or(0)
}

/// Returns whether a column has this name and was not dropped.
pub(super) fn is_named(attribute: &pg_sys::FormData_pg_attribute, name: &CStr) -> bool {
    // SAFETY: a NameData ends with a zero byte.
    !attribute.attisdropped && unsafe { CStr::from_ptr(attribute.attname.data.as_ptr()) } == name
}

pub(super) fn name_of(attribute: &pg_sys::FormData_pg_attribute) -> String {
    // SAFETY: a name ends with a zero.
    unsafe { CStr::from_ptr(attribute.attname.data.as_ptr()) }.to_string_lossy().into_owned()
}
