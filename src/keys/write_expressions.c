/*-------------------------------------------------------------------------
 *
 * write_expressions.c
 *	  The expressions of a caller's write: what DynamoDB refuses in them.
 *
 * A write that is made after a commit is refused when nobody can be told any more, so what can
 * be found before is.  DynamoDB must never be stricter here than it is itself: a write that it
 * would make may not be refused.  So this is not a parser.  It cuts an expression into tokens,
 * and looks only for what DynamoDB refuses whatever the item is:
 *
 * - In both expressions: characters, placeholders, reserved words and functions that it does
 *	 not know.
 * - In an UpdateExpression, too: clauses and the beginning of each action, which is the path
 *	 that it changes.  No path may be a part of another one, or of the key.  What follows the
 *	 "=" of a SET is not understood, but for values beside an operator or in a function.
 *
 * 078_hand_in.pl compares the answers with DynamoDB Local in both directions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "keys/reserved_words.h"
#include "keys/write_expressions.h"

/* Amazon DynamoDB Developer Guide, "Expression parameters" and "Supported data types". */
#define MAX_EXPRESSION_BYTES 4096
#define MAX_PLACEHOLDER_BYTES 255
#define MAX_PATH 32

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

typedef enum Kind
{
	END,						/* of the expression */
	WORD,						/* an attribute, a keyword or a function */
	NAME,						/* #name */
	VALUE,						/* :value */
	NUMBER,
	SIGN						/* any other character */
} Kind;

typedef struct Token
{
	Kind		kind;
	const char *start;
	int			len;
} Token;

/*
 * The attribute that an action changes, and its steps into that.  A name is written as ".name"
 * and an index as "[0", so that they are not mistaken for each other.
 */
typedef struct Path
{
	int			n;
	char	   *steps[MAX_PATH];
} Path;

typedef struct Scan
{
	EoWriteExpressions *e;
	const char *which;			/* "UpdateExpression" or "ConditionExpression" */
	const char *expression;
	Token		token;			/* the present one */
	Token		before;			/* the one before that */
	char	   *why;			/* NULL: nothing was found */
	List	   *paths;			/* of Path, that the update changes */
} Scan;

static void check_token(Scan *s);

static bool
is_sign(const Token *t, char sign)
{
	return t->kind == SIGN && *t->start == sign;
}

static bool
is_word(const Token *t, const char *word)
{
	return t->kind == WORD && t->len == (int) strlen(word) &&
		pg_strncasecmp(t->start, word, t->len) == 0;
}

static char *
text_of(const Token *t)
{
	return pnstrdup(t->start, t->len);
}

/* Note the first finding, and end the scan. */
static void
found(Scan *s, char *why)
{
	if (s->why == NULL)
		s->why = why;
	s->token.kind = END;
}

static void
found_token(Scan *s)
{
	found(s, s->token.kind == END ? psprintf("%s ends too early.", s->which) :
		  psprintf("%s has \"%s\" in a wrong place.", s->which, text_of(&s->token)));
}

/* ----- tokens ----- */

/* The token that begins after this one, without a look at what it means. */
static Token
token_after(const Token *t)
{
	Token		n = {.kind = SIGN,.start = t->start + t->len,.len = 1};

	n.start += strspn(n.start, " \t\n\r");
	if (*n.start == '\0')
	{
		n.kind = END;
		n.len = 0;
	}
	else if (*n.start == '#' || *n.start == ':')
		n.kind = *n.start == '#' ? NAME : VALUE;
	else if (strchr(LETTERS, *n.start) != NULL)
		n.kind = WORD;
	else if (strchr(DIGITS, *n.start) != NULL)
		n.kind = NUMBER;
	if (n.kind != END && n.kind != SIGN)
		n.len += strspn(n.start + 1, n.kind == NUMBER ? DIGITS : DIGITS LETTERS "_");
	return n;
}

static void
next(Scan *s)
{
	if (s->why != NULL)
		return;
	s->before = s->token;
	s->token = token_after(&s->token);
	check_token(s);
}

static void
begin(Scan *s, const char *which, const char *expression)
{
	s->which = which;
	s->expression = expression;
	s->token = (Token)
	{
		.kind = END,.start = expression
	};
	if (strlen(expression) > MAX_EXPRESSION_BYTES)
		found(s, psprintf("%s has %zu bytes; DynamoDB allows %d.", which, strlen(expression),
						  MAX_EXPRESSION_BYTES));
	next(s);
	if (s->token.kind == END)
		found(s, psprintf("%s is empty.", which));
}

static int
compare_words(const void *word, const void *entry)
{
	return pg_strcasecmp(word, *(const char *const *) entry);
}

static bool
is_reserved(const Token *t)
{
	return bsearch(text_of(t), reserved_words, lengthof(reserved_words), sizeof(char *),
				   compare_words) != NULL;
}

static EoPlaceholder *
find_placeholder(const Scan *s, const Token *t)
{
	ListCell   *lc;

	foreach(lc, s->e->placeholders)
	{
		EoPlaceholder *p = lfirst(lc);

		if (strlen(p->name) == (size_t) t->len && strncmp(p->name, t->start, t->len) == 0)
			return p;
	}
	return NULL;
}

/* Is the token one of the keywords of its expression? */
static bool
is_keyword(const Scan *s, const Token *t)
{
	static const char *const words[2][6] = {
		{"SET", "REMOVE", "ADD", "DELETE"}, {"AND", "OR", "NOT", "BETWEEN", "IN"}
	};
	const char *const *word = words[*s->which == 'C'];

	while (*word != NULL && !is_word(t, *word))
		word++;
	return *word != NULL;
}

static void
check_function(Scan *s)
{
	static const char *const functions[2][7] = {
		{"if_not_exists", "list_append"},
		{"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains",
		"size"}
	};
	const char *const *known = functions[*s->which == 'C'];
	char	   *name = text_of(&s->token);

	while (*known != NULL && strcmp(*known, name) != 0)
		known++;
	if (*known == NULL)
		found(s, psprintf("%s has no function \"%s\".", s->which, name));
}

/* Look for what is refused anywhere in an expression. */
static void
check_token(Scan *s)
{
	const Token *t = &s->token;
	EoPlaceholder *p;
	Token		after;

	switch (t->kind)
	{
		case NAME:
		case VALUE:
			p = find_placeholder(s, t);
			if (p != NULL)
				p->used = true;
			else
				found(s, psprintf("%s uses %s, which %s does not define.", s->which, text_of(t),
								  t->kind == NAME ? "ExpressionAttributeNames" :
								  "ExpressionAttributeValues"));
			break;
		case WORD:
			after = token_after(t);
			if (is_keyword(s, t))
				break;
			if (is_sign(&after, '('))
				check_function(s);
			else if (is_reserved(t))
				found(s, psprintf("%s has the reserved word \"%s\" for an attribute; name it by a placeholder of ExpressionAttributeNames.",
								  s->which, text_of(t)));
			break;
		case NUMBER:
			if (!is_sign(&s->before, '['))
				found(s, psprintf("%s has the number %s; give it in ExpressionAttributeValues.",
								  s->which, text_of(t)));
			break;
		case SIGN:
			if (strchr("(),.[]=<>+-", *t->start) == NULL)
				found(s, psprintf("%s has a character at position %d that DynamoDB does not know there.",
								  s->which, (int) (t->start - s->expression) + 1));
			break;
		case END:
			break;
	}
}

/* ----- an update ----- */

/* Skip a token that must be there. */
static void
expect(Scan *s, char sign)
{
	if (!is_sign(&s->token, sign))
		found_token(s);
	next(s);
}

/* The next step into an attribute; NULL, and a finding, if there is none. */
static char *
read_step(Scan *s)
{
	char	   *step = NULL;

	if (s->token.kind == NAME)
		step = psprintf(".%s", find_placeholder(s, &s->token)->stands_for);
	else if (s->token.kind == WORD && !is_keyword(s, &s->token))
		step = psprintf(".%s", text_of(&s->token));
	else
		found_token(s);
	next(s);
	return step;
}

/* Read a path: a, #a.b, a[0].c */
static Path *
read_path(Scan *s)
{
	Path	   *path = palloc0(sizeof(Path));

	path->steps[path->n++] = read_step(s);
	while (is_sign(&s->token, '.') || is_sign(&s->token, '['))
	{
		bool		index = is_sign(&s->token, '[');
		char	   *step;

		next(s);
		if (index && s->token.kind != NUMBER)
			found_token(s);
		step = index ? psprintf("[%s", text_of(&s->token)) : read_step(s);
		if (index)
		{
			next(s);
			expect(s, ']');
		}
		if (path->n == MAX_PATH)
			found(s, psprintf("%s has a path of more than %d levels.", s->which, MAX_PATH));
		else
			path->steps[path->n++] = step;
	}
	return path;
}

/*
 * Two paths that an update changes must not meet: one must not lead through the other, and an
 * attribute that both lead into is a map or a list.
 */
static void
check_paths(Scan *s, const Path *path)
{
	ListCell   *lc;

	foreach(lc, s->e->keys)
	{
		if (strcmp(lfirst(lc), path->steps[0] + 1) == 0)
			found(s, psprintf("It changes attribute \"%s\", which is a part of the key.",
							  path->steps[0] + 1));
	}
	foreach(lc, s->paths)
	{
		const Path *other = lfirst(lc);
		int			same = 0;

		while (same < path->n && same < other->n &&
			   strcmp(path->steps[same], other->steps[same]) == 0)
			same++;
		if (same == path->n || same == other->n ||
			(same > 0 && (path->steps[same][0] == '[') != (other->steps[same][0] == '[')))
			found(s, psprintf("%s changes attribute \"%s\" in two actions of which one leads into the other.",
							  s->which, path->steps[0] + 1));
	}
	s->paths = lappend(s->paths, unconstify(Path *, path));
}

/* The present token is a value that must be of one of these types, as "N,SS". */
static void
check_type(Scan *s, const char *types, const char *use)
{
	const char *type = find_placeholder(s, &s->token)->stands_for;
	const char *at = strstr(types, type);

	if (at == NULL || (at != types && at[-1] != ',') ||
		(at[strlen(type)] != '\0' && at[strlen(type)] != ','))
		found(s, psprintf("%s has the value %s of type %s with %s, which takes %s.", s->which,
						  text_of(&s->token), type, use, types));
}

/* Skip what a SET assigns, which ends with a comma or a keyword. */
static void
skip_assigned(Scan *s)
{
	int			depth = 0;
	Token		start = s->token;

	while (s->token.kind != END && !is_keyword(s, &s->token) &&
		   !(depth == 0 && is_sign(&s->token, ',')))
	{
		Token		after = token_after(&s->token);

		depth += is_sign(&s->token, '(') - is_sign(&s->token, ')');
		if (depth < 0 || is_sign(&s->token, '='))
			found_token(s);
		else if (s->token.kind == VALUE && (is_sign(&s->before, '+') || is_sign(&s->before, '-') ||
											is_sign(&after, '+') || is_sign(&after, '-')))
			check_type(s, "N", "an operator");
		next(s);
	}
	if (s->token.start == start.start || depth > 0)
		found_token(s);
}

/* One action of a clause, from its path on. */
static void
read_action(Scan *s, char clause)
{
	Path	   *path = read_path(s);

	if (s->why == NULL)
		check_paths(s, path);
	if (clause == 'S')
	{
		expect(s, '=');
		skip_assigned(s);
	}
	else if (clause == 'A' || clause == 'D')
	{
		if (s->token.kind != VALUE)
			found_token(s);
		else
			check_type(s, clause == 'A' ? "N,SS,NS,BS" : "SS,NS,BS",
					   clause == 'A' ? "ADD" : "DELETE");
		next(s);
	}
}

static void
read_update(Scan *s)
{
	char		seen[5] = "";

	while (s->token.kind != END)
	{
		char		clause = pg_toupper((unsigned char) *s->token.start);

		if (!is_keyword(s, &s->token))
			found_token(s);
		else if (strchr(seen, clause) != NULL)
			found(s, psprintf("%s has two clauses %s.", s->which, text_of(&s->token)));
		if (s->why != NULL)
			return;
		seen[strlen(seen)] = clause;
		do
		{
			next(s);
			read_action(s, clause);
		} while (is_sign(&s->token, ','));
	}
}

/* ----- a write ----- */

static const char *
check_placeholders(const EoWriteExpressions *e)
{
	ListCell   *lc;

	foreach(lc, e->placeholders)
	{
		const EoPlaceholder *p = lfirst(lc);
		bool		is_name = p->name[0] == '#';

		if (is_name && p->stands_for[0] == '\0')
			return psprintf("ExpressionAttributeNames gives %s no name.", p->name);
		if (strlen(p->name) > MAX_PLACEHOLDER_BYTES)
			return psprintf("A placeholder has %zu bytes; DynamoDB allows %d.", strlen(p->name),
							MAX_PLACEHOLDER_BYTES);
		if (!p->used)
			return psprintf("%s is defined, and no expression uses it.", p->name);
	}
	return NULL;
}

const char *
eo_write_expressions_check(EoWriteExpressions *e)
{
	Scan		s = {.e = e};

	if (e->update != NULL)
	{
		begin(&s, "UpdateExpression", e->update);
		read_update(&s);
	}
	if (e->condition != NULL && s.why == NULL)
	{
		begin(&s, "ConditionExpression", e->condition);
		while (s.token.kind != END)
			next(&s);
	}
	return s.why != NULL ? s.why : check_placeholders(e);
}
