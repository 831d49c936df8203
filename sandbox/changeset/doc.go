// Package changeset reads what a session did to its workspace, and carries out
// of it what the user wants.
//
// A session works on an overlay: the user's directory, the base, is below, and
// all that the session writes goes into an upper directory. This package reads
// both from outside:
//
//   - [Read] compares the upper with the [View] below it and returns a [Set] of
//     changes;
//   - [Set.WritePatch] and [Set.WriteStat] show them;
//   - [Apply] carries them out in the base, and [Recover] puts the base right if
//     that was cut short;
//   - [Drop] takes what was applied or is unwanted out of the upper;
//   - [Bases] keeps what each change was made on, so that Apply overwrites
//     nothing that the session did not see.
//
// The upper is the work of an agent that may be hostile. Nothing in it is
// followed, nothing is opened that is not a regular file, everything is bounded,
// and what was read to be shown is what is applied, or nothing is. The base is
// the user's, who may write to it at any moment, also while it is applied to.
//
// What an overlay does not tell is inferred or left out: renames are files of
// the same content; a rename of a directory is one of its files. Hard links of
// the base are split when a session writes to one of them, as the overlay splits
// them. Time stamps are not carried out: what Apply writes is new. Permissions of
// the workspace's root are not part of a set.
package changeset
