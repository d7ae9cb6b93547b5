//! Compares the ASCII shortcuts with the full steps, and the profile with another implementation.

use icu_properties::props::BidiClass;
use precis_profiles::UsernameCaseMapped;
use precis_profiles::precis_core::profile::Profile as _;
use proptest::prelude::*;

use super::*;
use crate::tables::Pinned;

/// Compares shortcut and full steps for every ASCII text of one or two characters, and for a third of those of three.
#[test]
fn ascii_is_as_if_it_were_not() {
    let chars: Vec<char> = ('\0'..='\x7F').collect();
    let mut text = String::new();
    for &a in &chars {
        for b in [None].into_iter().chain(chars.iter().map(Some)) {
            for c in [None].into_iter().chain(chars.iter().step_by(if b.is_some() { 3 } else { 200 }).map(Some)) {
                text.clear();
                text.extend([Some(&a), b, c].into_iter().flatten());
                assert_eq!(username::<Pinned>(&text), enforce::<Pinned>(&text), "{text:?}");
                assert_eq!(ascii_lower(&text), crate::fold::fold::<Pinned>(&text), "{text:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn long_ascii_too(text in "[ -~]{1,60}|[!-~]{1,60}") {
        prop_assert_eq!(username::<Pinned>(&text), enforce::<Pinned>(&text));
        prop_assert_eq!(ascii_lower(&text), crate::fold::fold::<Pinned>(&text));
    }
}

/// Tests every fullwidth and halfwidth character by Unicode's East_Asian_Width and decompositions. It is mapped as they
/// say, or refused with and without mapping.
#[test]
fn width_mapping_is_unicodes() {
    use icu_normalizer::DecomposingNormalizerBorrowed;
    use icu_properties::CodePointMapData;
    use icu_properties::props::EastAsianWidth;
    let width = CodePointMapData::<EastAsianWidth>::new();
    let nfkd = DecomposingNormalizerBorrowed::new_nfkd();
    let mut mapped = 0;
    for c in '\0'..=char::MAX {
        let text = c.to_string();
        let is_wide = matches!(width.get(c), EastAsianWidth::Fullwidth | EastAsianWidth::Halfwidth);
        match wide_or_narrow(c) {
            Some(other) => {
                assert!(is_wide, "{c:?}");
                assert_eq!(nfkd.normalize(&text), other.to_string());
                mapped += 1;
            }
            None if is_wide => {
                assert!(username::<Pinned>(&text).is_err(), "{c:?}");
                // Its decomposition is a compatibility character again, or a character that no user name can have.
                let target = nfkd.normalize(&text);
                let hangul = ('\u{FFA0}'..='\u{FFDC}').contains(&c);
                assert!(hangul || username::<Pinned>(&target).is_err(), "{c:?} {target:?}");
            }
            None => (),
        }
    }
    assert_eq!(mapped, 94 + 59);
}

/// Returns whether the other implementation knows the character. Its tables are of Unicode 6.3.
fn is_old(c: char) -> bool {
    use precis_profiles::precis_core::{DerivedPropertyValue, IdentifierClass, StringClass};
    IdentifierClass::default().get_value_from_char(c) != DerivedPropertyValue::Unassigned
}

/// Compares the profile with precis-profiles, for every code point of Unicode 6.3 in several contexts. The texts are
/// composed, because the RFC checks code points before it composes, and this profile after it. They have no marks in
/// text from right to left, because RFC 5893, 2, condition 2, allows these and precis-profiles does not.
#[test]
fn is_what_another_implementation_says() {
    let other = UsernameCaseMapped::new();
    let (mut compared, mut differs) = (0, Vec::new());
    for c in ('\0'..=char::MAX).filter(|c| is_old(*c)) {
        let is_mark = Pinned::bidi_class(c) == BidiClass::NonspacingMark;
        let hebrew = (!is_mark).then(|| format!("\u{5D0}{c}\u{5D0}"));
        let texts = [format!("{c}"), format!("a{c}"), format!("l{c}l"), format!("{c}1")];
        for text in texts.into_iter().chain(hebrew).filter(|text| *Pinned::nfc(text) == **text) {
            let theirs = other.enforce(text.as_str()).ok();
            if theirs != username::<Pinned>(&text).ok() {
                differs.push(text.clone());
            }
            compared += 1;
        }
    }
    assert!(compared > 500_000, "{compared}");
    assert_eq!(differs, ["aΣ", "\u{5D0}\u{FF9E}\u{5D0}", "\u{5D0}\u{FF9F}\u{5D0}"]);
}
