/*
 * secret_test.c
 *	  Memory for secrets is left out of core dumps and is unmapped when it is freed.
 */
#include "wire/secret.h"
#include "unit.h"

/*
 * Has the mapping at this address the flag "dd" (proc(5): do not include area into
 * core dump)?  -1: nothing is mapped there.
 */
static int
is_left_out(const void *p)
{
	FILE	   *smaps = fopen("/proc/self/smaps", "r");
	unsigned long at = (unsigned long) p;
	unsigned long from;
	unsigned long to;
	bool		here = false;
	int			found = -1;
	char		line[512];

	while (smaps != NULL && fgets(line, sizeof(line), smaps) != NULL)
	{
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = at >= from && at < to;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			found = strstr(line, " dd") != NULL;
	}
	if (smaps != NULL)
		fclose(smaps);
	return found;
}

int
main(void)
{
	char	   *secret = eo_secret_copy("a secret");
	char	   *large = eo_secret_alloc(10000);
	void	   *ordinary = malloc(16);

	is_string(secret, "a secret", "a secret is copied");
	ok(large != NULL && large[0] == '\0' && large[9999] == '\0', "memory for a secret is zeroed");
	memset(large, 'x', 10000);
	ok(is_left_out(secret) == 1, "a secret is left out of core dumps");
	ok(is_left_out(large) == 1 && is_left_out(large + 9999) == 1, "a large one with its last page");
	ok(is_left_out(ordinary) == 0, "other memory is not");
	eo_secret_free(secret);
	eo_secret_free(large);
	eo_secret_free(NULL);
	ok(is_left_out(secret) != 1 && is_left_out(large) != 1, "the pages of a freed secret are gone");
	free(ordinary);
	return done();
}
