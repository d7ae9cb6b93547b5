//! Conditions over the rows of a table.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

use super::owner::restricted_as;
use super::settings::{with_fixed_text, with_search_path};
use super::text::char_byte;

/// A condition with qualified names.
pub struct Condition {
    pub text: String,
    /// Whether its value depends on the row only.
    pub is_immutable: bool,
    /// Whether it reads a virtual generated column, which has no value in the rows of triggers.
    pub reads_virtual_column: bool,
}

/// Parses a condition under the current search_path, as a CHECK constraint is parsed. Returns `None` if it is more than
/// one expression, or if the relation has no rows. PostgreSQL raises the errors of the expression itself.
///
/// Parsing evaluates literals, and so runs code of types. It runs as the table's owner, if `may_act_for` allows that.
pub fn read_condition<E>(
    table: pg_sys::Oid,
    condition: &str,
    may_act_for: impl FnOnce(pg_sys::Oid) -> Result<(), E>,
) -> Result<Option<Condition>, E> {
    let Ok(source) = CString::new(condition) else { return Ok(None) };
    // SAFETY: the parse trees live in the current memory context; the relation is closed again here or, after an error,
    // with the (sub)transaction. Its lock is kept, so that the table does not change until the transaction ends.
    unsafe {
        let parse = pg_sys::raw_parser(source.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_PLPGSQL_EXPR);
        let Some(expression) = only_expression(parse) else { return Ok(None) };
        let lock = pg_sys::AccessShareLock as i32;
        let relation = pg_sys::try_relation_open(table, lock);
        if relation.is_null() {
            return Ok(None);
        }
        let (kind, owner) = (char_byte((*(*relation).rd_rel).relkind), (*(*relation).rd_rel).relowner);
        if let Err(refusal) = may_act_for(owner) {
            pg_sys::relation_close(relation, pg_sys::NoLock as i32);
            return Err(refusal);
        }
        let has_rows = kind == pg_sys::RELKIND_RELATION || kind == pg_sys::RELKIND_PARTITIONED_TABLE;
        let condition = has_rows.then(|| restricted_as(owner, || over_rows_of(relation, expression))).flatten();
        pg_sys::relation_close(relation, pg_sys::NoLock as i32);
        Ok(condition)
    }
}

pub fn table_name(table: pg_sys::Oid) -> String {
    // SAFETY: the result is NULL or a palloc'ed cstring.
    unsafe {
        let name = pg_sys::get_rel_name(table);
        if name.is_null() { table.to_u32().to_string() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Returns the expression, if the text is nothing but one.
///
/// # Safety
/// The list is a parse of RAW_PARSE_PLPGSQL_EXPR. This mode accepts more than expressions: its result is a SELECT with
/// all clauses.
unsafe fn only_expression(parse: *mut pg_sys::List) -> Option<*mut pg_sys::Node> {
    // SAFETY: the parser's result is a list of one RawStmt that holds a SelectStmt.
    unsafe {
        let statement: *mut pg_sys::RawStmt = pg_sys::list_nth(parse, 0).cast();
        let select = &*(*statement).stmt.cast::<pg_sys::SelectStmt>();
        let is_plain = select.distinctClause.is_null()
            && select.fromClause.is_null()
            && select.whereClause.is_null()
            && select.groupClause.is_null()
            && select.havingClause.is_null()
            && select.windowClause.is_null()
            && select.sortClause.is_null()
            && select.limitOffset.is_null()
            && select.limitCount.is_null()
            && select.lockingClause.is_null()
            && !select.targetList.is_null()
            && (*select.targetList).length == 1;
        let target: *mut pg_sys::ResTarget = is_plain.then(|| pg_sys::list_nth(select.targetList, 0).cast())?;
        ((*target).name.is_null() && !is_star((*target).val)).then_some((*target).val)
    }
}

/// Returns whether a node is a bare `*`. It stands for many expressions, and PostgreSQL does not expect it in one.
///
/// # Safety
/// The node is a raw parse tree.
unsafe fn is_star(node: *mut pg_sys::Node) -> bool {
    // SAFETY: a ColumnRef has at least one field.
    unsafe {
        (*node).type_ == pg_sys::NodeTag::T_ColumnRef
            && (*pg_sys::list_nth((*node.cast::<pg_sys::ColumnRef>()).fields, 0).cast::<pg_sys::Node>()).type_
                == pg_sys::NodeTag::T_A_Star
    }
}

/// Analyzes an expression over the rows of a relation.
///
/// # Safety
/// The relation is open, and the expression is a raw parse tree.
unsafe fn over_rows_of(relation: pg_sys::Relation, expression: *mut pg_sys::Node) -> Option<Condition> {
    // SAFETY: does what PostgreSQL does for CHECK constraints (cookConstraint).
    unsafe {
        let state = pg_sys::make_parsestate(std::ptr::null_mut());
        let lock = pg_sys::AccessShareLock as i32;
        let null = std::ptr::null_mut();
        let rows = pg_sys::addRangeTableEntryForRelation(state, relation, lock, null, false, true);
        pg_sys::addNSItemToQuery(state, rows, true, true, true);
        let kind = pg_sys::ParseExprKind::EXPR_KIND_CHECK_CONSTRAINT;
        let expression = pg_sys::transformExpr(state, expression, kind);
        let expression = pg_sys::coerce_to_boolean(state, expression, c"CLAIMS".as_ptr());
        pg_sys::assign_expr_collations(state, expression);
        // CHECK constraints may use tableoid, which is not part of the row.
        let mut columns = std::ptr::null_mut();
        pg_sys::pull_varattnos(expression, 1, &mut columns);
        let tableoid = pg_sys::TableOidAttributeNumber - pg_sys::FirstLowInvalidHeapAttributeNumber;
        if pg_sys::bms_is_member(tableoid, columns) {
            return None;
        }
        let reads_virtual_column = has_virtual_column(relation, columns);
        let is_immutable = !pg_sys::contain_mutable_functions(expression);
        let name = (&raw const (*(*relation).rd_rel).relname.data).cast();
        // Literals, such as dates, are spelled so that every session reads them as the same value.
        let spelled = || {
            let context = pg_sys::deparse_context_for(name, (*relation).rd_id);
            let text = pg_sys::deparse_expression(expression, context, false, false);
            CStr::from_ptr(text).to_string_lossy().into_owned()
        };
        let text = with_search_path(c"pg_catalog, pg_temp", || with_fixed_text(spelled));
        pg_sys::free_parsestate(state);
        Some(Condition { text, is_immutable, reads_virtual_column })
    }
}

/// Returns whether one of the columns is a virtual generated column, which exist since PostgreSQL 18.
///
/// # Safety
/// The relation is open, and the columns are a result of `pull_varattnos`.
unsafe fn has_virtual_column(relation: pg_sys::Relation, columns: *const pg_sys::Bitmapset) -> bool {
    const VIRTUAL: u8 = b'v';
    // SAFETY: guaranteed by the caller. It reads the catalogs.
    unsafe {
        let is_virtual = |number: i32| {
            i16::try_from(number)
                .is_ok_and(|number| char_byte(pg_sys::get_attgenerated((*relation).rd_id, number)) == VIRTUAL)
        };
        let mut member = pg_sys::bms_next_member(columns, -1);
        while member >= 0 {
            let number = member + pg_sys::FirstLowInvalidHeapAttributeNumber;
            // 0 is the whole row, which contains all columns.
            let found = match number {
                0 => (1..=(*(*relation).rd_att).natts).any(is_virtual),
                number => number > 0 && is_virtual(number),
            };
            if found {
                return true;
            }
            member = pg_sys::bms_next_member(columns, member);
        }
        false
    }
}
