//! Builds jsonb from its parts with the functions that `jsonb_in` uses, and without a text that must be parsed.

use std::marker::PhantomData;

use pgrx::pg_sys;

use super::jsonb::{Jsonb, Memory};

/// A jsonb that is being built from texts that outlive it.
struct JsonbWriter<'t> {
    state: *mut pg_sys::JsonbParseState,
    /// The kind of the next parts of the innermost open container: values of an object's keys, or elements of an array.
    parts: pg_sys::JsonbIteratorToken::Type,
    memory: Memory,
    texts: PhantomData<&'t str>,
}

/// The position of one missing value. Writing the value consumes it, so exactly one is written.
pub struct MissingValue<'w, 't>(&'w mut JsonbWriter<'t>);

/// The proof that a value was written.
pub struct Written(());

/// A key of an object, and the function that writes its value.
pub type Field<'f, 't> = (&'static str, &'f dyn Fn(MissingValue<'_, 't>) -> Written);

impl Jsonb {
    /// Builds an object with these fields. PostgreSQL raises 54000 if it has more bytes than a jsonb can have.
    pub fn object<'t>(fields: &[Field<'_, 't>]) -> Jsonb {
        let memory = Memory::new();
        let parts = pg_sys::JsonbIteratorToken::WJB_VALUE;
        let mut writer = JsonbWriter { state: std::ptr::null_mut(), parts, memory, texts: PhantomData };
        let whole = writer.write_object(fields);
        // SAFETY: the end of the outermost object returns the whole value, and its texts are still alive.
        writer.memory.with(|| unsafe { Jsonb::copy_of(pg_sys::JsonbValueToJsonb(whole)) })
    }
}

impl<'t> MissingValue<'_, 't> {
    pub fn text(self, text: &'t str) -> Written {
        self.0.push(self.0.parts, Some(text));
        Written(())
    }

    pub fn object(self, fields: &[Field<'_, 't>]) -> Written {
        self.0.write_object(fields);
        Written(())
    }

    /// Writes an array, with one element for each item.
    pub fn array<T>(
        self,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(MissingValue<'_, 't>, T) -> Written,
    ) -> Written {
        let writer = self.0;
        let outer = std::mem::replace(&mut writer.parts, pg_sys::JsonbIteratorToken::WJB_ELEM);
        writer.push(pg_sys::JsonbIteratorToken::WJB_BEGIN_ARRAY, None);
        for item in items {
            write(MissingValue(writer), item);
        }
        writer.push(pg_sys::JsonbIteratorToken::WJB_END_ARRAY, None);
        writer.parts = outer;
        Written(())
    }
}

impl<'t> JsonbWriter<'t> {
    fn write_object(&mut self, fields: &[Field<'_, 't>]) -> *mut pg_sys::JsonbValue {
        let outer = std::mem::replace(&mut self.parts, pg_sys::JsonbIteratorToken::WJB_VALUE);
        self.push(pg_sys::JsonbIteratorToken::WJB_BEGIN_OBJECT, None);
        for (key, write) in fields {
            self.push(pg_sys::JsonbIteratorToken::WJB_KEY, Some(key));
            write(MissingValue(self));
        }
        self.parts = outer;
        self.push(pg_sys::JsonbIteratorToken::WJB_END_OBJECT, None)
    }

    fn push(&mut self, step: pg_sys::JsonbIteratorToken::Type, text: Option<&'t str>) -> *mut pg_sys::JsonbValue {
        pg_sys::check_for_interrupts!();
        let mut value = pg_sys::JsonbValue::default();
        let value = text.map(|text| {
            value.type_ = pg_sys::jbvType::jbvString;
            value.val.string = pg_sys::JsonbValue__bindgen_ty_1__bindgen_ty_1 {
                len: i32::try_from(text.len()).unwrap_or(i32::MAX),
                val: text.as_ptr().cast_mut().cast(),
            };
            &raw mut value
        });
        let JsonbWriter { state, memory, .. } = self;
        // SAFETY: the steps come in the order in which an iterator would give them; the value is copied, its text is
        // only read and outlives the writer.
        memory.with(|| unsafe { pg_sys::pushJsonbValue(state, step, value.unwrap_or(std::ptr::null_mut())) })
    }
}
