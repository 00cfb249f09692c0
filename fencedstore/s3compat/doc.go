// Package s3compat fences objects on any S3-compatible store.
//
// A fence ID in an object's metadata, checked with If-Match, does not fence: an
// ETag is a hash of the bytes, so whoever writes equal bytes, or touches the
// metadata, or makes a key and deletes it again, leaves the store in a state
// that a stale request still matches. Here each resource has one register, an
// object with the fence and a random write ID in its bytes. It is changed only
// by small conditional PUTs, and never deleted.
//
//	holder A                      register                      holder B
//	claim 41 ───────────────────▶ fence 41, ETag e1
//	read statement ◀────────────
//	~ paused ~
//	                              fence 42, ETag e2 ◀────────── claim 42
//	                              ────────────────────────────▶ read statement
//	~ wakes up ~
//	upload d/41/… ──────────────▶ an object that nobody refers to
//	PUT If-Match: e1 ───────────▶ 412: *StaleError
//	                              new statement, e3 ◀────────── PUT If-Match: e2
//
// Small values live in the register itself. Larger ones are uploaded to names
// that are used once, in parts when they are large, and become visible when the
// register refers to them. docs/s3-layout.md describes all that is stored.
//
// # Guarantees
//
// When Claim has returned nil, no commit of an older fence succeeds any more,
// and what is read from then on stays until the holder itself changes it. A
// refused call changes nothing that anybody can see. An [Store.Update] of
// several keys is one step. This needs three things of a store, and [Open]
// tests them: PUT with If-None-Match: *, PUT with If-Match, and reads that
// show what was written.
//
// An outcome is reported as it is. The SDK does not repeat conditional writes,
// since the repetition would be refused by the effect of the first. A write
// whose answer is lost, or leaves open what happened, is sent again as it is
// until some write has moved the ETag: from then on none of its copies can
// land, and the write IDs in the register, the current one and the 64 before
// it, tell whether one of them did.
//
// # What it does not do
//
// It is safe only against who uses it. Give holders' credentials no way around
// it: on AWS a bucket policy can demand s3:if-match or s3:if-none-match for the
// registers, see docs/s3-layout.md.
//
// The unit of atomicity is one resource; two of them are two registers. Each
// commit sends all entries of a resource anew, and they take turns: a resource
// is good for as many commits a second as the store has round trips, and for
// some thousand keys. What does not fit a register of [MaxRegister] bytes goes to
// an object of its own, at the cost of a request for each commit and read, up to
// [MaxManifest]; the object that a commit replaces is garbage until a GC.
//
// A store that loses a register, or brings an older one back, loses the fence
// with it. A [Store] that has seen a newer one says [ErrRegisterGone]; a new
// process cannot know. A store whose conditional writes are atomic only most of
// the time, or only on one of its front ends, passes the probe: run package
// storetest against it.
//
// Of a ranged read the position, the size and the ETag of the whole are checked;
// only a value read from end to end, or one that is inline, is compared with its
// checksum.
//
// # Errors
//
// Every error is an *[Error] with bucket, key and fence, around one of package
// fencedstore, one of this package, or the SDK's own: *[fencedstore.StaleError],
// *[fencedstore.FenceReusedError] and *[fencedstore.NotClaimedError] are
// refusals. [fencedstore.ErrUnknownOutcome] says that the write may have
// landed, or may land until the next claim or commit of anybody; what was
// uploaded for it stays. Any other error says that nothing has happened.
//
// # Stores
//
// The probe tells for each endpoint and bucket what holds; nothing is decided
// by a vendor's name. Versioned buckets work; expire old versions of registers
// by a lifecycle rule, and never the current one. On a store with eventual
// reads across regions, ask for strong ones in the client's options.
//
// # Concurrency
//
// A [Store] is safe for concurrent use by goroutines, and any number of Stores
// in any number of processes may use one bucket. Writers of one tenure do not
// lose each other's changes: a commit that finds another one there is applied
// on top of it. Two of them that put one key leave one of the two values.
package s3compat
