//! The layout with which the extension creates a table, and the comparison with the layout that the table has.

use std::cell::RefCell;
use std::ffi::CStr;
use std::rc::Rc;

use pgrx::pg_sys;

use crate::cache::Freshness;
use crate::index::{KeyOrder, indexes_of};
use crate::settings::under;
use crate::text::char_byte;
use crate::tuple::{attribute, name_of, width};

use super::sequence;

/// A table as the extension creates it.
pub struct Layout {
    /// Its name in schema `claims`.
    pub name: &'static CStr,
    pub columns: &'static [ColumnLayout],
    /// Its indexes. The first one is unique, and rows are looked up in it.
    pub indexes: &'static [IndexLayout],
    /// Whether administrators are told to add indexes. Then [`difference`] does not report them.
    pub may_have_more_indexes: bool,
}

pub struct ColumnLayout {
    pub name: &'static CStr,
    pub type_oid: pg_sys::Oid,
    pub is_not_null: bool,
    pub identity: Identity,
}

/// Whether a column is an identity column. A table has at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    No,
    ByDefault,
}

pub struct IndexLayout {
    pub is_unique: bool,
    pub keys: &'static [IndexKey],
    /// The condition for the rows of a partial index, as PostgreSQL writes it.
    pub predicate: Option<&'static CStr>,
}

impl IndexLayout {
    pub const fn unique(keys: &'static [IndexKey]) -> Self {
        IndexLayout { is_unique: true, keys, predicate: None }
    }

    pub const fn of(keys: &'static [IndexKey]) -> Self {
        IndexLayout { is_unique: false, keys, predicate: None }
    }

    pub const fn partial(keys: &'static [IndexKey], predicate: &'static CStr) -> Self {
        IndexLayout { is_unique: false, keys, predicate: Some(predicate) }
    }
}

/// A key column of an index, by the position of its column in [`Layout::columns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKey {
    Column(usize),
    /// `length(column)`
    LengthOf(usize),
    /// The elements of an array, in a GIN index with this column only.
    Elements(usize),
}

impl IndexKey {
    pub(super) fn column(self) -> usize {
        match self {
            IndexKey::Column(column) | IndexKey::LengthOf(column) | IndexKey::Elements(column) => column,
        }
    }
}

/// The way in which a table differs from its layout.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    /// For people.
    text: String,
    is_reported: bool,
}

impl From<String> for Difference {
    fn from(text: String) -> Self {
        Difference { text, is_reported: true }
    }
}

/// Where a table has the columns and indexes of its layout.
pub(super) struct Shape {
    /// The number of each column, from 1, in the order of the layout.
    pub columns: Vec<usize>,
    /// The indexes in the order of the layout.
    pub indexes: Vec<pg_sys::Oid>,
    /// The sequence of the identity column.
    pub sequence: Option<pg_sys::Oid>,
}

/// A comparison, valid until the table changes.
struct Compared {
    layout: &'static CStr,
    relation: pg_sys::Oid,
    fresh: Freshness,
    result: Result<Rc<Shape>, Rc<Difference>>,
}

thread_local! {
    static COMPARED: RefCell<Vec<Compared>> = const { RefCell::new(Vec::new()) };
}

/// Reads the last comparison with a layout, if the relation has not changed since.
fn last_comparison<T>(layout: &Layout, read: impl FnOnce(&Compared) -> Option<T>) -> Option<T> {
    // Each layout has one name, so the place of the name identifies it.
    let is_valid = |compared: &&Compared| std::ptr::eq(compared.layout, layout.name) && compared.fresh.is_fresh();
    COMPARED.with_borrow(|all| all.iter().find(is_valid).and_then(read))
}

/// Returns the relation that had the layout when it was compared last, if it has not changed since.
pub(super) fn known(layout: &Layout) -> Option<pg_sys::Oid> {
    last_comparison(layout, |last| last.result.is_ok().then_some(last.relation))
}

/// Compares an open, locked table with its layout. Compares again only if the table has changed.
///
/// # Safety
/// The relation is open, and locked at least ACCESS SHARE.
pub(super) unsafe fn compare(layout: &Layout, relation: pg_sys::Relation) -> Result<Rc<Shape>, Rc<Difference>> {
    // SAFETY: guaranteed by the caller.
    let oid = unsafe { (*relation).rd_id };
    if let Some(result) = last_comparison(layout, |last| (last.relation == oid).then(|| last.result.clone())) {
        return result;
    }
    let fresh = Freshness::of(oid);
    // SAFETY: guaranteed by the caller.
    let result = unsafe { shape(layout, relation) }.map(Rc::new).map_err(Rc::new);
    COMPARED.with_borrow_mut(|all| {
        all.retain(|compared| !std::ptr::eq(compared.layout, layout.name));
        all.push(Compared { layout: layout.name, relation: oid, fresh, result: result.clone() });
    });
    result
}

/// # Safety
/// The relation is open, and locked at least ACCESS SHARE.
unsafe fn shape(layout: &Layout, relation: pg_sys::Relation) -> Result<Shape, Difference> {
    // SAFETY: a relcache entry is complete while the relation is open.
    unsafe {
        table_kind(relation)?;
        let columns = columns(layout, (*relation).rd_att)?;
        let indexes = indexes(layout, relation, &columns)?;
        let identity = layout.columns.iter().position(|column| column.identity != Identity::No);
        let sequence = identity.map(|at| sequence::of_column(relation, columns[at]));
        Ok(Shape { columns, indexes, sequence })
    }
}

/// Refuses tables on which a statement does more than to write rows and index entries.
unsafe fn table_kind(relation: pg_sys::Relation) -> Result<(), Difference> {
    // SAFETY: guaranteed by the caller; the pointers are NULL where there is nothing.
    unsafe {
        let form = &*(*relation).rd_rel;
        let is_heap = char_byte(form.relkind) == pg_sys::RELKIND_RELATION && form.relam == pg_sys::HEAP_TABLE_AM_OID;
        let fires = (*relation).trigdesc.as_ref().is_some_and(|triggers| {
            triggers.trig_insert_before_row
                || triggers.trig_insert_after_row
                || triggers.trig_insert_instead_row
                || triggers.trig_insert_before_statement
                || triggers.trig_insert_after_statement
                || triggers.trig_update_before_row
                || triggers.trig_update_after_row
                || triggers.trig_update_instead_row
                || triggers.trig_update_before_statement
                || triggers.trig_update_after_statement
                || triggers.trig_delete_before_row
                || triggers.trig_delete_after_row
                || triggers.trig_delete_instead_row
                || triggers.trig_delete_before_statement
                || triggers.trig_delete_after_statement
        });
        let constraints = (*(*relation).rd_att).constr.as_ref();
        let differences = [
            (!is_heap, "it is not an ordinary heap table"),
            (
                char_byte(form.relpersistence) != pg_sys::RELPERSISTENCE_PERMANENT,
                "it is unlogged, so a crash empties it",
            ),
            (form.relhassubclass || form.relispartition, "it is part of an inheritance tree"),
            (form.relrowsecurity || form.relforcerowsecurity, "row security is enabled"),
            (!(*relation).rd_rules.is_null(), "it has a rule"),
            (fires, "it has a trigger for INSERT, UPDATE or DELETE"),
            (constraints.is_some_and(|constraints| constraints.num_check > 0), "it has a CHECK constraint"),
        ];
        match differences.into_iter().find(|(differs, _)| *differs) {
            Some((_, difference)) => Err(difference.to_owned().into()),
            None => Ok(()),
        }
    }
}

/// Returns the numbers of the columns. Every column of the table that was not dropped is one of the layout.
unsafe fn columns(layout: &Layout, descriptor: pg_sys::TupleDesc) -> Result<Vec<usize>, Difference> {
    // SAFETY: guaranteed by the caller; the numbers are those of the descriptor.
    let in_use = unsafe {
        (1..=width(descriptor)).filter(|number| !attribute(descriptor, *number).attisdropped).collect::<Vec<_>>()
    };
    let is_key = |at| layout.indexes.iter().flat_map(|index| index.keys).any(|key| key.column() == at);
    let number_of = |(at, column): (usize, &ColumnLayout)| {
        let is_it = |number: &&usize| {
            // SAFETY: as above; a name ends with a zero byte.
            let found = unsafe { attribute(descriptor, **number) };
            let has_name = unsafe { CStr::from_ptr(found.attname.data.as_ptr()) } == column.name;
            has_name
                && found.atttypid == column.type_oid
                && found.attnotnull == column.is_not_null
                && found.attgenerated == 0
                // Statements leave columns that may be NULL out.
                && (column.is_not_null || !found.atthasdef)
                && char_byte(found.attidentity) == wanted_identity(column.identity)
                && (found.atttypid != pg_sys::TEXTOID
                    || found.attcollation == pg_sys::C_COLLATION_OID
                    // The database's own collation is deterministic, too, but has another order.
                    || found.attcollation == pg_sys::DEFAULT_COLLATION_OID && !is_key(at))
        };
        let number = in_use.iter().find(is_it).copied();
        number
            .ok_or_else(|| Difference::from(format!("column {} was altered or dropped", column.name.to_string_lossy())))
    };
    let numbers: Vec<usize> = layout.columns.iter().enumerate().map(number_of).collect::<Result<_, _>>()?;
    match in_use.iter().find(|number| !numbers.contains(number)) {
        // SAFETY: as above.
        Some(added) => Err(format!("column {} was added", name_of(unsafe { attribute(descriptor, *added) })).into()),
        None => Ok(numbers),
    }
}

/// Returns pg_attribute.attidentity of a column.
fn wanted_identity(identity: Identity) -> u8 {
    match identity {
        Identity::No => 0,
        Identity::ByDefault => pg_sys::ATTRIBUTE_IDENTITY_BY_DEFAULT,
    }
}

/// Returns the indexes in the order of the layout. Every index of the table is one of the layout.
unsafe fn indexes(
    layout: &Layout,
    relation: pg_sys::Relation,
    columns: &[usize],
) -> Result<Vec<pg_sys::Oid>, Difference> {
    let mut found = vec![pg_sys::InvalidOid; layout.indexes.len()];
    let mut other = None;
    // SAFETY: the lock on the table keeps its indexes from being dropped.
    unsafe {
        for oid in indexes_of(relation) {
            let index = pg_sys::index_open(oid, pg_sys::AccessShareLock as _);
            let at = layout.indexes.iter().position(|wanted| is_as_created(wanted, index, columns));
            let name = CStr::from_ptr((*(*index).rd_rel).relname.data.as_ptr()).to_string_lossy().into_owned();
            pg_sys::index_close(index, pg_sys::AccessShareLock as _);
            match at.filter(|at| found[*at] == pg_sys::InvalidOid) {
                Some(at) => found[at] = oid,
                None => other = other.or(Some(name)),
            }
        }
    }
    let is_missing = found.contains(&pg_sys::InvalidOid);
    match other {
        Some(name) => Err(Difference {
            text: format!("index {name} was added or altered"),
            is_reported: is_missing || !layout.may_have_more_indexes,
        }),
        None if is_missing => Err("an index was dropped".to_owned().into()),
        None => Ok(found),
    }
}

/// The operator family `array_ops` of GIN.
const ARRAY_OPS: pg_sys::Oid = pg_sys::Oid::from_u32(2745);

/// # Safety
/// The index is open.
unsafe fn is_as_created(wanted: &IndexLayout, index: pg_sys::Relation, columns: &[usize]) -> bool {
    // SAFETY: an index has a column number, a family, a collation and options for each of its key columns.
    unsafe {
        let form = &*(*index).rd_index;
        let width = wanted.keys.len();
        let is_of_elements = matches!(wanted.keys, [IndexKey::Elements(_)]);
        let method = if is_of_elements { pg_sys::GIN_AM_OID } else { pg_sys::BTREE_AM_OID };
        let is_plain = (*(*index).rd_rel).relam == method
            && form.indisunique == wanted.is_unique
            && (form.indimmediate || !form.indisunique)
            && !form.indisexclusion
            && form.indisvalid
            && form.indisready
            && form.indislive
            && usize::try_from(form.indnkeyatts) == Ok(width)
            && usize::try_from(form.indnatts) == Ok(width)
            && has_predicate(index, wanted.predicate);
        if !is_plain {
            return false;
        }
        let numbers = form.indkey.values.as_slice(width);
        let mut expressions = expressions(index).into_iter();
        let has_key = |(at, key): (usize, &IndexKey)| {
            let column = i16::try_from(columns[key.column()]).unwrap_or(0);
            let of_column = match key {
                IndexKey::Column(_) => numbers[at] == column,
                IndexKey::Elements(_) => return numbers[at] == column && *(*index).rd_opfamily.add(at) == ARRAY_OPS,
                IndexKey::LengthOf(_) => numbers[at] == 0 && expressions.next().is_some_and(|it| is_length(it, column)),
            };
            of_column && KeyOrder::of_column(index, at).is_usual() && *(*index).rd_indoption.add(at) == 0
        };
        wanted.keys.iter().enumerate().all(has_key)
    }
}

/// Returns whether an index has this predicate, or none.
///
/// # Safety
/// The index is open.
unsafe fn has_predicate(index: pg_sys::Relation, wanted: Option<&CStr>) -> bool {
    // SAFETY: guaranteed by the caller. The expression refers to columns of the table only. All is a copy in the current memory context.
    unsafe {
        let list = pg_sys::RelationGetIndexPredicate(index);
        let Some(wanted) = wanted else { return list.is_null() };
        if list.is_null() {
            return false;
        }
        let context = pg_sys::deparse_context_for(c"".as_ptr(), (*(*index).rd_index).indrelid);
        // Whatever the session has set: the text has names in quotes, and names of schemas, only where they are needed.
        let text = under(&[(c"quote_all_identifiers", c"off"), (c"search_path", c"pg_catalog")], || {
            pg_sys::deparse_expression(pg_sys::make_ands_explicit(list).cast(), context, false, false)
        });
        CStr::from_ptr(text) == wanted
    }
}

/// Returns the expressions of an index, in the order of its key columns.
unsafe fn expressions(index: pg_sys::Relation) -> Vec<*mut pg_sys::Node> {
    // SAFETY: guaranteed by the caller. The list is a copy in the current memory context.
    unsafe {
        let list = pg_sys::RelationGetIndexExpressions(index);
        let count = if list.is_null() { 0 } else { (*list).length };
        (0..count).map(|at| pg_sys::list_nth(list, at).cast()).collect()
    }
}

/// Returns whether an expression is `length(column)`.
unsafe fn is_length(expression: *mut pg_sys::Node, column: i16) -> bool {
    // SAFETY: the tag of a node tells its type.
    unsafe {
        if (*expression).type_ != pg_sys::NodeTag::T_FuncExpr {
            return false;
        }
        let call = &*expression.cast::<pg_sys::FuncExpr>();
        let is_length = call.funcid == pg_sys::Oid::from(pg_sys::F_LENGTH_TEXT);
        let argument: *mut pg_sys::Node = if is_length { pg_sys::list_nth(call.args, 0).cast() } else { return false };
        (*argument).type_ == pg_sys::NodeTag::T_Var && (*argument.cast::<pg_sys::Var>()).varattno == column
    }
}

/// Returns the way in which a table of schema `claims` differs from its layout, for people, if it does and the layout does not expect that.
/// Locks the table ACCESS SHARE meanwhile.
pub fn difference(layout: &Layout) -> Option<String> {
    // SAFETY: the table is open and locked until the comparison is done.
    unsafe {
        let table = crate::table::open_table(layout.name);
        if table.is_null() {
            return Some("it does not exist".to_owned());
        }
        let compared = compare(layout, table);
        pg_sys::relation_close(table, pg_sys::AccessShareLock as _);
        compared.err().filter(|difference| difference.is_reported).map(|difference| difference.text.clone())
    }
}
