package storetest

// Watch is watch, with timeouts that a test can wait for.
var Watch = watch
