//! Rows that do not answer the request.

use super::super::lie::Deed::{Done, Undone};
use super::super::lie::{Fault, Honest, Lie, Place, Step, send};
use super::super::wire::{self, Value};
use super::{LARGE, piece};

const fn lie(name: &'static str, fault: Fault, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Undone, fault, is_long: false, computes: false, tell }
}

const fn odd(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Done, fault: Fault::None, is_long: false, computes: false, tell }
}

/// Position of the cursor among the parameters of a list of leases.
const ASKED_CURSOR: usize = 1;

pub static LIES: &[Lie] = &[
    lie("no row", Fault::OneRow, |honest| honest.around(honest.description())),
    lie("a surplus row", Fault::OneRow, |honest| {
        honest.around([honest.description(), honest.all_rows(), honest.row()].concat())
    }),
    lie("a thousand rows", Fault::OneRow, |honest| {
        honest.around([honest.description(), honest.row().repeat(1000)].concat())
    }),
    lie("a flood of rows", Fault::Every, |honest| {
        let rows = piece(&honest.row());
        vec![send([honest.head.clone(), honest.description()]), Step::Flood(Box::new(move |_| rows.clone()))]
    })
    .long(),
    lie("a flood of empty rows", Fault::Every, |honest| {
        let rows = piece(&wire::row(&[]));
        vec![send([honest.head.clone(), wire::description(&[])]), Step::Flood(Box::new(move |_| rows.clone()))]
    })
    .long(),
    lie("a row of 90 MB", Fault::Values, |honest| honest.with_values(|_| Some(vec![b'x'; LARGE / 2]))).long(),
    lie("NULL", Fault::Values, |honest| honest.with_values(|_| None)),
    lie("empty values", Fault::Values, |honest| honest.with_values(|_| Some(Vec::new()))),
    lie("nonsense", Fault::Values, |honest| honest.with_values(|_| Some(b"nonsense".into()))),
    lie("numbers out of range", Fault::Values, |honest| {
        honest.with_values(|_| Some(b"99999999999999999999999".into()))
    }),
    lie("negative numbers", Fault::Values, |honest| honest.with_values(|_| Some(b"-1".into()))),
    lie("not a number", Fault::Values, |honest| honest.with_values(|_| Some(b"NaN".into()))),
    lie("invalid UTF-8", Fault::Values, |honest| honest.with_values(|_| Some(vec![0xFF, 0xC3, b'\'', 0xFE]))),
    lie("zero bytes", Fault::Values, |honest| honest.with_values(|_| Some(vec![0; 16]))),
    lie("another lease's uuid", Fault::AskedLeases, |honest| {
        honest.with_values(|value| if is_uuid(value) { Some(honest.stranger.clone().into()) } else { value.clone() })
    }),
    lie("a uuid cut short", Fault::Leases, |honest| {
        honest.with_values(|value| value.clone().map(|text| if text.len() == 36 { text[..35].to_vec() } else { text }))
    }),
    lie("unknown words", Fault::Values, |honest| {
        honest.with_values(|value| if is_uuid(value) { value.clone() } else { Some(b"perhaps".into()) })
    }),
    lie("binary values", Fault::Values, |honest| {
        let mut columns = honest.columns.clone();
        columns.iter_mut().for_each(|column| column.rest[17] = 1);
        honest.around([wire::description(&columns), honest.with_bytes(&[0x01, 0x9A, 0x00, 0x7F])].concat())
    }),
    lie("the first column missing", Fault::Values, |honest| {
        let rows = honest.rows.iter().flat_map(|row| wire::row(&row[1..]));
        honest.around([wire::description(&honest.columns[1..]), rows.collect()].concat())
    }),
    lie("no columns", Fault::Values, |honest| honest.around([wire::description(&[]), wire::row(&[])].concat())),
    lie("a page that ends where it began", Fault::Pages, |honest| {
        // The page behind the last one: it has the cursor that was asked for.
        let asked = honest.parameters.get(ASKED_CURSOR).cloned().flatten();
        let made_up = || vec![Some(honest.stranger.clone().into()), None, asked, Some(b"f".into())];
        let row = honest.rows.last().cloned().unwrap_or_else(made_up);
        honest.around([honest.description(), wire::row(&row)].concat())
    }),
    odd("a column more", |honest| with_more_columns(honest, 1)),
    odd("a thousand columns", |honest| with_more_columns(honest, 1000)),
    odd("other types", |honest| {
        let mut columns = honest.columns.clone();
        // The type's oid is that of a box.
        columns.iter_mut().for_each(|column| column.rest[6..10].copy_from_slice(&603_i32.to_be_bytes()));
        honest.around([wire::description(&columns), honest.all_rows()].concat())
    }),
    odd("other names", |honest| {
        let mut columns = honest.columns.clone();
        columns.iter_mut().for_each(|column| column.name = vec![0xFE; 10_000]);
        honest.around([wire::description(&columns), honest.all_rows()].concat())
    }),
];

impl Honest {
    /// Returns the rows with these bytes in place of every value.
    fn with_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.rows.iter().flat_map(|row| wire::row(&vec![Some(bytes.to_vec()); row.len()])).collect()
    }
}

fn is_uuid(value: &Value) -> bool {
    value.as_ref().is_some_and(|text| std::str::from_utf8(text).is_ok_and(|text| text.parse::<uuid::Uuid>().is_ok()))
}

fn with_more_columns(honest: &Honest, more: usize) -> Vec<Step> {
    let mut columns = honest.columns.clone();
    columns.extend(columns.last().cloned().into_iter().cycle().take(more));
    // NULL, so that the first columns are unchanged.
    let longer = |row: &Vec<Value>| wire::row(&[row.clone(), vec![None; more]].concat());
    honest.around([wire::description(&columns), honest.rows.iter().flat_map(longer).collect()].concat())
}
