// Package testenv gives tests real servers and the harm that a test can do to
// them: pauses, kills, restarts, and a network that loses, delays and resets.
//
// A server comes from the first of these that can serve:
//
//	url     the address in FENCED_TEST_REDIS_URL, FENCED_TEST_POSTGRES_URL or
//	        FENCED_TEST_S3_URL
//	docker  a container; only in a test binary that imports testenv/docker
//	local   a server binary of this machine, run as a child process
//
// FENCED_TEST_MODE pins one of them. Where none can serve, the test is skipped
// and the skip says what to set or install; FENCED_TEST_REQUIRE turns that into
// a failure. docs/testing.md lists every knob.
//
// # What a test gets
//
// [NewRedis], [NewPostgres] and [NewS3] start a server for one test. [Database] makes an
// empty database on the one Postgres that the test binary shares, which costs a
// tenth of a server; a package that uses it calls [Main] from its TestMain. A
// [Proxy] stands before each server, so that an address stays the same over
// restarts and the network can fail. [NewPgBouncer] puts a pooler before a
// database. [Start] runs any other program.
//
// # What it does not do
//
// It uses 127.0.0.1 only; the one exception is an address that the caller put
// into a knob. It never deletes data that it did not make: a Redis named by URL
// must be empty when the tests begin.
//
// # Concurrency
//
// Everything here may be called from several goroutines, with the limits that
// [testing.TB] has: what takes one may end the test and belongs into the
// goroutine of the test.
package testenv
