//! Whether something keeps the host's clock right.

use std::mem::MaybeUninit;

/// Whether the kernel counts its clock as synchronised: NTP, or whatever keeps it, has said so. A
/// kernel that does not tell counts as saying no.
#[expect(unsafe_code, reason = "neither std nor rustix asks the kernel for the state of its clock")]
pub fn clock_is_synchronised() -> bool {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: the structure is as large as the kernel takes it to be, and its `modes` are zero, so
    // nothing is set; it is only written to.
    let answer = unsafe { libc::adjtimex(state.as_mut_ptr()) };
    answer != -1 && answer != libc::TIME_ERROR
}
