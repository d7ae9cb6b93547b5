//! The form that stands for an erased name in what outlives its claim.

use claims_names::Profile;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The number of bytes of a key. HMAC uses longer ones no better.
pub const KEY_BYTES: usize = 32;

/// Returns the form of an erased name: a keyed hash (HMAC-SHA-256, its first 128 bits), equal for one name of a type under one key, and a name
/// that the profile of its type accepts.
pub fn erased_form(key: &[u8], bucket_type: i32, profile: Profile, value: &str) -> String {
    // HMAC takes keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { unreachable!("HMAC takes every key") };
    mac.update(&bucket_type.to_le_bytes());
    mac.update(value.as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    match profile {
        Profile::Email => format!("erased-{hex}@erased.invalid"),
        _ => format!("erased-{hex}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Profile, erased_form};

    #[test]
    fn the_form_depends_on_key_type_and_name_only() {
        let form = |key: &[u8], bucket_type, value| erased_form(key, bucket_type, Profile::Exact, value);
        let forms = [form(b"k", 1, "ada"), form(b"l", 1, "ada"), form(b"k", 2, "ada"), form(b"k", 1, "bob")];
        for (at, one) in forms.iter().enumerate() {
            assert!(!forms[..at].contains(one), "{one}");
        }
        assert_eq!(form(b"k", 1, "ada"), forms[0]);
    }

    #[test]
    fn it_is_hmac_sha_256() {
        // printf '\1\0\0\0ada' | openssl dgst -sha256 -hmac k
        assert_eq!(erased_form(b"k", 1, Profile::Exact, "ada"), EXPECTED);
    }

    #[test]
    fn every_profile_accepts_it() {
        for profile in Profile::ALL {
            let form = erased_form(b"k", 1, profile, "ada");
            assert_eq!(profile.canonical(&form).as_deref().ok(), Some(form.as_str()), "{profile}");
        }
    }

    const EXPECTED: &str = "erased-f2758c8787c9c175a1d4b138db74e711";
}
