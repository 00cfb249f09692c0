// Command s3 measures what fencing objects costs, on a real S3 server on this
// machine: versitygw, with signatures, on files.
//
// The variants are, for values of 100 bytes,
//
//	get       GetObject                     fenced_get    Store.Get
//	put       PutObject                     fenced_put    Store.Put
//	cas       PutObject with If-Match, of   claim         Store.Claim with a
//	          as many bytes as a register                 new fence
//
// and for 1 MiB and 32 MiB
//
//	put       PutObject in one request      fenced_put    Store.Put: one request
//	multipart an upload in parts of 8 MiB                 for 1 MiB, else in parts
//
// of which the one in as many requests is what to compare with.
// The requests of each operation are counted, on the way to the server.
package main
