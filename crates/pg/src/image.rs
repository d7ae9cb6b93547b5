//! Values of types that are passed by reference, in memory of Rust.

use pgrx::pg_sys;

/// Bytes that PostgreSQL can read in place, aligned for every type.
#[derive(Debug, Clone)]
pub(super) struct Image(Box<[u64]>);

/// The length of a varlena header as this crate writes it.
pub(super) const HEADER: usize = 4;

impl Image {
    fn zeroed(bytes: usize) -> Self {
        Image(vec![0; bytes.div_ceil(size_of::<u64>())].into_boxed_slice())
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: all of it is initialized, and bytes are aligned anywhere.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), size_of_val(&*self.0)) }
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut image = Image::zeroed(bytes.len());
        image.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        image
    }

    /// Builds a varlena with these bytes.
    pub(super) fn varlena(content: &[u8]) -> Self {
        let mut image = Image::zeroed(HEADER + content.len());
        let bytes = image.bytes_mut();
        bytes[..HEADER].copy_from_slice(&header(HEADER + content.len()));
        bytes[HEADER..HEADER + content.len()].copy_from_slice(content);
        image
    }

    /// Copies the varlena that a datum points to.
    ///
    /// # Safety
    /// The datum points to a plain varlena, neither toasted nor with a short header.
    pub(super) unsafe fn of_varlena(datum: pg_sys::Datum) -> Self {
        let start: *const u8 = datum.cast_mut_ptr();
        // SAFETY: guaranteed by the caller; the header has the number of bytes.
        unsafe { Image::of(std::slice::from_raw_parts(start, pgrx::varsize_any(start.cast()))) }
    }

    /// Returns the bytes, up to the end of the last unit of 8.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: all of it is initialized, and bytes are aligned anywhere.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(&*self.0)) }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    pub(super) fn datum(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.as_ptr())
    }
}

/// Returns the header of a varlena of `size` bytes, which include the header (SET_VARSIZE).
pub(super) fn header(size: usize) -> [u8; HEADER] {
    let size = u32::try_from(size).ok().filter(|size| *size < 1 << 30);
    let size = size.unwrap_or_else(|| panic!("value is too large"));
    let size = if cfg!(target_endian = "big") { size } else { size << 2 };
    size.to_ne_bytes()
}
