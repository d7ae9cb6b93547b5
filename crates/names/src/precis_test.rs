//! Compares the derived property with IANA's registry of Unicode 6.3.0, the last published one.

use super::{Derived, derived};
use crate::tables::Pinned;

#[path = "../tests/common/mod.rs"]
mod common;

fn name(c: char) -> &'static str {
    match derived::<Pinned>(c) {
        Derived::Valid => "PVALID",
        Derived::Contextual if matches!(c, '\u{200C}' | '\u{200D}') => "CONTEXTJ",
        Derived::Contextual => "CONTEXTO",
        Derived::FreeText(_) => "ID_DIS or FREE_PVAL",
        Derived::Disallowed(_) => "DISALLOWED",
        Derived::Unassigned => "UNASSIGNED",
    }
}

/// The code points of Unicode 6.3 whose derived property has changed since. There are none.
const CHANGED: [(u32, &str); 0] = [];

#[test]
fn is_what_iana_published() {
    let file = common::crate_file("precis-core", "0.2.0", "resources/csv/precis-tables-6.3.0.csv");
    let (mut compared, mut changed) = (0, Vec::new());
    for line in file.lines().skip(1) {
        let mut columns = line.splitn(3, ',');
        let (Some(codes), Some(property)) = (columns.next(), columns.next()) else { panic!("{line}") };
        let (first, last) = codes.split_once('-').unwrap_or((codes, codes));
        let parse = |code: &str| u32::from_str_radix(code, 16).expect("a code point");
        for c in (parse(first)..=parse(last)).filter_map(char::from_u32) {
            if property != "UNASSIGNED" {
                compared += 1;
                if name(c) != property {
                    changed.push((u32::from(c), name(c)));
                }
            }
        }
    }
    assert!(compared > 240_000, "{compared}");
    assert_eq!(changed, CHANGED);
}
