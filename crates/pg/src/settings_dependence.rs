//! Finds out whether an expression can have different values under different settings of the session.

use std::ffi::{CStr, c_void};

use pgrx::pg_sys::{Node, NodeTag, Oid};
use pgrx::{pg_guard, pg_sys};

use super::text::char_byte;

/// Output functions that PostgreSQL declares IMMUTABLE although their results depend on `extra_float_digits`, `bytea_output` or `IntervalStyle`.
const DEPENDENT: [u32; 11] = [
    pg_sys::F_FLOAT4OUT,
    pg_sys::F_FLOAT8OUT,
    pg_sys::F_BYTEAOUT,
    pg_sys::F_INTERVAL_OUT,
    pg_sys::F_POINT_OUT,
    pg_sys::F_LSEG_OUT,
    pg_sys::F_PATH_OUT,
    pg_sys::F_BOX_OUT,
    pg_sys::F_POLY_OUT,
    pg_sys::F_LINE_OUT,
    pg_sys::F_CIRCLE_OUT,
];

/// The functions that read and print enums. They are STABLE because labels can be renamed.
const OF_ENUMS: [u32; 2] = [pg_sys::F_ENUM_IN, pg_sys::F_ENUM_OUT];

/// The extension whose IMMUTABLE functions are known to depend on no setting.
const TRUSTED_EXTENSION: &CStr = c"citext";

/// Returns whether the value of an expression may depend on settings. Only for functions of PostgreSQL itself and of citext, IMMUTABLE is
/// taken as the answer: others, like the output function of cube, print numbers under settings, too.
///
/// # Safety
/// The node is an analyzed expression, or a list of them.
pub(super) unsafe fn depends_on_settings(expression: *mut Node) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { node_depends(expression, std::ptr::null_mut()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn node_depends(node: *mut Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: PostgreSQL passes nodes of analyzed expressions. The tag says what a node is.
    unsafe {
        match (*node).type_ {
            // A domain's constraints are expressions of their own.
            NodeTag::T_CoerceToDomain | NodeTag::T_SQLValueFunction | NodeTag::T_XmlExpr | NodeTag::T_Query => true,
            NodeTag::T_Const if is_read_under_settings((*node.cast::<pg_sys::Const>()).consttype) => true,
            _ if pg_sys::check_functions_in_node(node, Some(function_depends), context) => true,
            _ => pg_sys::expression_tree_walker(node, Some(node_depends), context),
        }
    }
}

/// Returns whether a literal of a type may be read differently under other settings. PostgreSQL reads it again when it replaces a cached plan.
fn is_read_under_settings(value_type: Oid) -> bool {
    let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: two variables to write to. It reads the catalogs.
    unsafe {
        pg_sys::getTypeInputInfo(value_type, &mut input, &mut parameter);
        function_depends(input, std::ptr::null_mut())
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn function_depends(function: Oid, _context: *mut c_void) -> bool {
    let number = function.to_u32();
    if OF_ENUMS.contains(&number) {
        return false;
    }
    // SAFETY: it reads the catalogs.
    let is_immutable = unsafe { char_byte(pg_sys::func_volatile(function)) == pg_sys::PROVOLATILE_IMMUTABLE };
    !is_immutable || DEPENDENT.contains(&number) || (number >= pg_sys::FirstNormalObjectId && !is_trusted(function))
}

/// Returns whether a function belongs to [TRUSTED_EXTENSION].
fn is_trusted(function: Oid) -> bool {
    // SAFETY: it reads the catalogs. The name is NULL or a palloc'ed C string.
    unsafe {
        let extension = pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, function);
        let name = pg_sys::get_extension_name(extension);
        !name.is_null() && CStr::from_ptr(name) == TRUSTED_EXTENSION
    }
}
