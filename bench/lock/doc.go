// Command lock compares the lock with what people write by hand and with other
// lock libraries, on one real redis-server without persistence.
//
// An operation is a pair: acquire a free resource, release it. Every variant
// has its own client and names. The variants are
//
//	bare          two scripts of three lines each, as one would write them
//	bare-boxed    the same, with every allocation avoided that go-redis allows
//	fenced        fencedlock
//	redislock     github.com/bsm/redislock
//	redsync       github.com/go-redsync/redsync, one server
//	rueidislock   github.com/redis/rueidis/rueidislock, one key
//
// Of these, only the first three issue fences.
package main
