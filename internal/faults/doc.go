// Package faults plans harm, records what the harmed did, and judges it.
//
// It is the part of the fault suite that needs no servers: the tests named
// Faults at the root of the module bring those, and docs/testing.md says how to
// run them.
//
//	Plan     which fault begins when, and for how long, from a seed
//	Run      carries a plan out
//	History  what the workers asked for and what they were told
//	Judge    compares it with what the store has kept
//
// # What is judged
//
// A worker writes values that are all different, and remembers what it replaces.
// So the store's own account, the values in the order in which they were
// accepted, tells what went wrong without any trust in the lock or in the
// adapter: see [Rules]. Each rule has a test with a history that breaks it.
//
// # Time
//
// All workers run on one machine, so that their wall clocks can be compared. Only
// intervals that do not overlap are put in an order.
package faults
