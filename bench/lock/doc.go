// Command lock compares the lock with what people write by hand and with other
// lock libraries, on one real redis-server without persistence.
//
// First an operation is a pair: acquire a free resource, release it. Every variant
// has its own client and names. The variants are
//
//	bare          two scripts that run the same commands as fencedlock, unchecked
//	bare-boxed    the same, with every allocation avoided that go-redis allows
//	incr          the shortest scripts: SET NX and INCR, which starts at 1 again
//	              when Redis loses its data
//	fenced        fencedlock
//	redislock     github.com/bsm/redislock
//	redsync       github.com/go-redsync/redsync, one server
//	rueidislock   github.com/redis/rueidis/rueidislock, one key
//
// The last three issue no fences.
//
// After that processes of this program contend for one name, and one process holds
// very many names.
package main
